"""English word lists. Verbs are regular and never double a consonant; no word breaks the `an` before a vowel rule."""

from __future__ import annotations

from tuner.workload.texts.grammar import listed, words

WOMEN = words("""
Ada Agnes Aiko Alba Amara Anneke Anya Beatriz Brigid Camille Carmen Chiara Clara Dalia Daphne Edith Elena Elif Emeka
Esther Fatima Fiona Freya Greta Hana Harriet Helga Ines Ingrid Irina Jamila Joan Jolene Kamala Katya Kirsten Leila Lena
Lucia Mabel Maeve Marguerite Marisol Mei Miriam Nadia Naomi Nerys Niamh Noor Odile Olga Paloma Petra Priya Ramona
Renata Rosalind Ruth Sabine Saoirse Selma Sigrid Simone Soraya Tamsin Teresa Thandi Una Valeria Vera Wanda Winifred
Xenia Yasmin Yvette Zadie Zora
""")
MEN = words("""
Abel Adrian Ahmed Aldo Alistair Anton Arjun Armand Basil Bertrand Bram Caleb Casimir Cedric Clive Cormac Cyrus Dario
Desmond Dimitri Dougal Edgar Eero Emil Enzo Ewan Farid Felix Fergus Gareth Gideon Gustav Hamid Hector Henrik Hugo
Ibrahim Idris Ivo Jarek Jasper Jonas Kaspar Kenji Kofi Lars Leopold Linus Luca Malik Marek Mateo Milo Nikolai Nils Omar
Orson Osvaldo Otto Pavel Percy Quentin Rafael Rashid Roland Rufus Samir Silas Stellan Tariq Tobias Tomas Umberto Viktor
Wendell Yusuf Zoltan
""")
SURNAMES = words("""
Abara Achterberg Aldous Almeida Arkwright Ashdown Baptiste Barlow Beaumont Bergstrom Blackwood Brennan Calloway
Castellan Chaudhry Cottrell Dalgaard Delacroix Denholm Drummond Eastwick Ekwueme Fairbairn Falkner Ferreira Fitzroy
Galbraith Garrow Gilchrist Grimaldi Hallworth Harrow Haverford Heath Hidalgo Holloway Ishikawa Jankowski Kaczmarek
Kestrel Kirwan Lachance Larkin Lindqvist Lockhart Lombardi Macready Marchetti Mbeki Merriweather Moreau Nakamura
Nightingale Novak Oakes Okonkwo Oyelaran Pemberton Penhale Petrov Quayle Radcliffe Ravenscroft Rosenthal Rutherford
Sandoval Sato Schuyler Sinclair Sokolov Stavros Sutcliffe Takahashi Thackeray Thorne Trevelyan Tunstall Vandermeer
Varga Villanueva Voss Wadsworth Whitlock Winterbourne Yardley Yilmaz Zielinski
""")
TOWN_STARTS = words("""
Alder Amber Ash Barrow Beck Birch Black Bram Brook Cold Copper Crane Dun East Elder Fal Fen Glen Gold Grey Hart Haver
Hazel High Holm Iron Kettle Kings Lang Lark Lock Marl Marsh Mill Moor Nether North Oak Orch Pen Raven Red Rook Sand
Scar Sedge Silver Stan Stone Thorn Tarn Under Wake Wester White Wil Winter Wold Wren Yarrow
""")
TOWN_ENDS = words("""
bridge bury by combe cote dale den fell field ford gate grove ham haven head holt hurst leigh ley mere minster moor
mouth ness port ridge shaw stead stoke stow thorpe ton vale wick wood worth
""")
ROLES = words("""
accountant apothecary apprentice archivist auditor baker barber beekeeper blacksmith bookbinder botanist brewer
bricklayer butcher captain carpenter caretaker cartographer chemist clerk clockmaker coachman cobbler conductor cooper
courier dentist diver doctor draughtsman driver drummer electrician engraver farrier ferryman fiddler fisherman florist
forester gardener glazier goldsmith governess grocer harbourmaster herbalist innkeeper inspector janitor journalist
judge lamplighter librarian lighthouse-keeper locksmith magistrate mason mechanic midwife miller musician notary nurse
painter pharmacist photographer pilot plumber porter postmaster potter printer professor ropemaker saddler sculptor
seamstress shepherd shopkeeper signalman stonecutter student surgeon surveyor tailor tanner teacher translator verger
watchman weaver widow wheelwright
""")
TEMPERS = words("""
absent-minded ambitious anxious blunt bored boastful careful cautious cheerful clever curious discreet eager elderly
exhausted forgetful frail generous gentle gloomy grateful hesitant homesick impatient ironic jealous kindly lonely
modest nervous obstinate patient pious polite practical proud quarrelsome quiet reckless restless ruddy scholarly
secretive sharp-eyed shy sleepless soft-spoken solemn stern stubborn superstitious suspicious tactful talkative tall
thoughtful tireless vain wary weary witty young
""")
THINGS = words("""
accordion almanac anchor anvil apron armchair atlas axe bandage banjo barometer barrel basket bell bellows bicycle
blanket bonnet bottle bracelet bridle broom brooch bucket cabinet cage candle canoe cane carpet cart cello chain
chandelier chart chess-set chest chisel cloak clock coat coffin coin compass contract cradle crate crown crucible cup
curtain cushion dagger diary dictionary doll drawing drum easel envelope fan feather fiddle flag flask flute
fountain-pen gate globe glove goblet gramophone grindstone hammer hammock harness harp hat helmet hourglass inkwell
invoice jar jug kettle key kite knife knapsack ladder lamp lantern ledger lens letter locket loom lute magnet mallet
manuscript map mask medal mirror mortar napkin necklace needle net newspaper notebook oar oilcan overcoat padlock
paintbrush pamphlet parasol parcel passport pendulum petition photograph piano picture pillow pipe pitcher plough
pocket-watch postcard pot prism pulley puppet purse quill quilt rake raft recipe ribbon ring robe rope rudder rug
saddle satchel sail saw scarf scythe scroll shawl shield shovel sieve sketch sled spade spinning-wheel spoon stamp
statue stethoscope stool stove suitcase sundial sword tablecloth tankard tapestry teapot telegram telescope thermometer
thimble timetable torch trowel trumpet trunk typewriter vase veil violin wagon walking-stick wallet wardrobe
wheelbarrow whistle wreath wrench
""")
QUALITIES = words("""
ancient antique battered blackened blue borrowed bright brittle broken broad bronze carved cheap chipped clumsy coarse
cold cracked crooked crumpled curious damp delicate dented dusty elegant embroidered empty enormous expensive faded
familiar fine foreign forged forgotten fragile frayed frozen gilded gleaming green grey hand-made heavy hollow immense
inherited intricate iron ivory japanned knotted lacquered leaking light little lopsided lost magnificent makeshift
marbled mended mildewed missing modest mottled muddy narrow oiled old ornate padded painted pale patched peculiar plain
polished precious purple quaint ragged rare red reliable rough round ruined rusty scarlet scorched scratched sealed
secondhand shabby shallow silent silver simple sleek slender smoke-stained smooth soaked sodden soft solid spare
splendid spotless square stained stiff stolen stout striped sturdy swollen tall tarnished tattered thick tiny torn
translucent trusty twisted ugly valuable varnished violet warped weathered well-made white wicker wooden worn yellow
""")
SPOTS = words("""
abbey allotment almshouse arcade assembly-room attic avenue bakery ballroom bandstand barn barracks bathhouse belfry
boathouse bookshop brewery bridge cafe canal cathedral cellar chapel churchyard clinic cloister coal-yard corridor
cottage courthouse courtyard crossroads customs-house dairy dockyard ferry-landing fishmarket footpath forge foundry
fountain gallery garden gasworks glasshouse granary guildhall harbour hayloft hedge hospital inn jetty kitchen
laboratory lane laundry library lighthouse market meadow mill monastery museum nursery observatory orchard palace
paddock parlour pavilion pharmacy pier pigsty pond post-office printing-house quarry quay racecourse railway-station
reading-room reservoir ropewalk sawmill schoolhouse shipyard shrine signal-box slipway smithy square stable staircase
stream tannery tavern telegraph-office terrace theatre toll-house tower towpath tramway veranda viaduct vineyard
warehouse watermill well wharf windmill workshop
""")
DEEDS = words("""
abandon accept adjust admire advertise alter arrange auction balance borrow bury carry catalogue chase clean collect
conceal condemn copy cover deliver demand describe destroy discard discover display divide donate drain dust empty
examine exchange fasten fetch finish fold follow forge grease guard handle hoist ignore inherit inspect insure label
launch lift load lower mark measure mend mention misplace move name nail notice obtain open order pack paint park pawn
photograph place polish present preserve promise purchase push raise reclaim record recover refuse remember remove
rename repair replace request rescue restore return reveal rinse rotate salvage sample scorch scratch seal search seize
shake share shift sketch smash smuggle soak sort steady store straighten study surrender taste test touch toss trace
trade transport treasure trust unfold unlock unpack unwrap value wash watch weigh wrap
""")
SOCIAL = words("""
accompany accuse address admire advise alarm amuse annoy answer applaud assist avoid bless bore cheer comfort console
contradict convince counsel cure deceive defend disappoint distract embarrass employ encourage enlist entertain envy
flatter follow frighten greet guide harass hire humour ignore impress inform instruct insult interview invite join
mistrust mock notice obey offend overtake pardon persuade pity please praise question reassure recommend remember
rescue resent respect reward salute startle summon support surprise suspect tease thank threaten trust visit warn watch
welcome
""")
WENT = words("""
ambled climbed cycled darted dashed descended drifted galloped hastened hobbled hurried journeyed limped marched paced
paddled raced returned sailed sauntered scrambled sidled skated slipped staggered strayed strode strolled stumbled
trailed travelled trekked trudged turned waded walked wandered
""")
MANNERS = words("""
absently abruptly anxiously awkwardly bitterly boldly briskly calmly carefully cautiously cheerfully clumsily coldly
crossly deliberately discreetly doggedly eagerly earnestly easily evenly faintly firmly fondly gently gladly gloomily
gracefully gravely gruffly happily hastily heavily hesitantly hoarsely hopefully hurriedly idly impatiently innocently
kindly lazily lightly loudly meekly merrily mildly neatly nervously obediently patiently pensively placidly politely
proudly quickly quietly reluctantly rudely sadly shyly silently sleepily slowly softly solemnly soundlessly stiffly
sternly stubbornly suddenly sullenly swiftly tenderly thoughtfully tiredly vaguely warily warmly wearily wryly
""")
IDEAS = words("""
ambition arrogance authority beauty boredom bravery candour caution charity comfort compassion conscience convenience
courage courtesy craft cruelty curiosity custom debt delight dignity discipline doubt duty education efficiency envy
equality error exile experience failure fairness faith fame fashion fear freedom friendship generosity gossip gratitude
greed grief habit happiness haste honesty honour hope hospitality humility humour hunger imagination independence
indifference industry inheritance innocence instinct invention irony jealousy judgement justice kindness knowledge
labour language laughter law leisure loneliness loyalty luck luxury memory mercy modesty money music necessity
nostalgia obedience obligation opinion order patience peace perfection persistence pity play pleasure poverty power
praise prestige pride privacy progress promise prudence punctuality reason regret religion reputation responsibility
ritual routine rumour sacrifice scepticism science secrecy sentiment shame silence simplicity sincerity sleep solitude
sorrow speed sympathy talent taste temptation thrift tradition trust truth vanity violence virtue war wealth wisdom wit
wonder work youth
""")
EVENTS = words("""
accident anniversary argument auction avalanche ball banquet baptism blackout blizzard census christening comet concert
coronation drought earthquake eclipse election epidemic exhibition fair famine festival fire flood frost funeral gale
hailstorm harvest heatwave hurricane inquest inspection landslide lecture lottery masquerade mutiny parade pilgrimage
plague procession quarrel race raid regatta rehearsal retirement riot robbery scandal shipwreck siege storm strike thaw
thunderstorm tournament trial truce uprising voyage wedding
""")
MONTHS = words("January February March April May June July August September October November December")
WEEKDAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
NUMBERS = words("""
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy ninety
""")
WEATHER = listed("""
a warm drizzle, a thin fog, a bitter wind, an early frost, a heavy dew, a sudden squall, a pale sun
a low mist, driving sleet
a hot dry breeze, a clear cold light, a slow grey rain, fine snow, a yellow haze, a brittle calm, distant thunder
a wet southerly gale, starlight, a red dusk, a windless heat, a hard white glare
a smell of rain, the last of the daylight
a cloudless morning, scattered showers, a high thin overcast, a raw easterly, the first snow
a rising moon, steady rain
""")
SECTORS = words("""
aviation banking brewing catering cement ceramics construction dairy education electronics energy engineering
fertiliser fisheries footwear forestry freight furniture glass healthcare horticulture hospitality insurance leather
logistics machinery mining optics packaging paper pharmaceutical plastics poultry printing publishing rail recycling
retail rubber shipping software steel sugar telecoms textile timber tourism toy transport vehicle water wine
""")
METRICS = listed("""
average order value, bad debts, bed occupancy, cancellations, capital spending, claims paid
commuter traffic, complaints
crop yields, customer turnover, delivery times, domestic sales, downtime, electricity demand, emissions, energy costs
enquiries, export orders, fuel consumption, grain stocks, gross margins, headcount, housing starts, import volumes
inventory levels, investment income, job vacancies, late payments, lead times, licence fees, loan defaults
maintenance costs, membership, net income, new contracts, occupancy rates, operating expenses, output per worker
overtime, passenger numbers, patent filings, pension contributions, premium income, production, profit margins
raw material prices, refunds, rental income, repeat purchases, reservations, sick leave, staff turnover, subscriptions
tax receipts, ticket sales, training hours, visitor numbers, wages, warehouse capacity, warranty claims, waste volumes
water losses, working capital
""")
CAUSES = listed("""
a change of supplier, a delayed shipment, a fall in interest rates, a late spring, a long dispute over pay
a mild winter, a new tariff, a shortage of skilled staff, a single large order, a stronger currency, a weak harvest
an ageing fleet, an unexpected recall, better forecasting, bottlenecks at the port, cheaper components
closer inspection of returns, competition from abroad, congestion on the main line, demand from schools
early retirement among managers, errors in the old billing system, fewer public holidays, flooding at the main depot
higher freight rates, insurance settlements, longer opening hours, lower fuel prices, new safety rules
poor weather in the north, price cuts by rivals, problems with the new software, seasonal hiring, shorter routes
slow approval of permits, stricter credit checks, the closure of two branches, the loss of a major client
the opening of the ring road, the reorganisation of the night shift, tighter quality control, wider use of rail
""")
