"""Names for generated code and tools: entities, fields, actions."""

from __future__ import annotations

from tuner.workload.texts.grammar import words

ENTITIES = words("""
account address alert allocation appointment article asset assignment attachment auction audit badge balance batch
beacon bid blueprint booking branch bucket budget bundle campaign carrier cart catalog certificate channel charge chunk
claim client cluster comment commit complaint contract coupon course credit customer dataset deadline delivery
department deposit device discount dispatch document domain donation draft driver employee endpoint engine enrollment
event exam expense experiment feature fee feed fixture flight folder forecast form gateway grade grant guest holding
image incident index inspection installment instrument interview invoice item job journal kernel label layer lease
lecture ledger lesson license listing loan lobby locker lot machine mailbox manifest market meeting membership merchant
message meter migration milestone module mortgage node notification offer operator order outage parcel partner
passenger patch patient payment payout pension permit pipeline plan playlist plugin policy portfolio post prescription
price product profile project promotion proposal purchase query quota quote rating reading receipt recipe record refund
region release reminder rental replica report request reservation review reward role rollout room route sample schedule
schema score sensor server session shard shift shipment signal site slot snapshot sponsor statement station stock
student subscription supplier survey task team tenant terminal test ticket token tournament trade trainer transfer trip
upload usage vehicle vendor venue version visit volunteer voucher wallet warehouse warranty webhook worker workspace
zone
""")
NUMBERS = words("""
age amount area attempts average_cost backlog bandwidth list_price battery_level bytes_sent capacity commission
confidence consumption cost credit_limit cycle_time deductible delay_minutes density depth_m discount_rate distance_km
duration_s efficiency elapsed_ms error_rate exposure fee fill_level footprint frequency fuel_used growth_rate
hours_worked humidity income interest_rate latency_ms length_mm liability load_factor margin mass_g max_speed
memory_mib mileage net_value occupancy offset output_kwh overdue_days page_count peak_load penalty pressure priority
quantity queue_length rank rate reach remaining response_ms retention revenue risk_score salary seats severity
shrinkage size_kib speed_kmh stock_level subtotal surcharge tax temperature throughput tolerance total_weight turnover
unit_price utilization valuation variance velocity voltage volume_l wait_time weight_kg yield_rate
""")
TEXTS = words("""
access_level barcode brand building carrier_code category city code_name color_code contact_email contract_type
cost_center country_code currency customer_group department_code description device_type display_name district
document_type engine_type environment external_id family file_name fiscal_year format_name grade_level hostname
industry issue_type job_title language_code lifecycle locale location_code mailing_list manufacturer market_segment
material media_type merchant_code model_number network_zone origin owner_name owner_team packaging partner_id
payment_method platform postal_code product_line program protocol provider queue_name reason_code reference region_code
release_channel risk_class route_code sales_channel season sector serial_number service_tier shift_code size_class
source_system state_code status_code storage_class supplier_code tariff team_name template_name tenant_key time_zone
topic unit_name user_agent vendor_code visibility warehouse_code weekday_name
""")
FLAGS = words("""
is_active is_archived is_billable is_blocked is_canceled is_certified is_closed is_confirmed is_default is_deleted
is_draft is_encrypted is_expired is_external is_flagged is_fragile is_hidden is_insured is_internal is_locked is_manual
is_optional is_overdue is_paid is_pending is_pinned is_primary is_private is_public is_refundable is_remote
is_renewable is_reserved is_shared is_signed is_stale is_synced is_taxable is_trusted is_verified is_virtual
needs_review
""")
VALUES = words("""
accepted advanced alpha annual approved archived assigned automatic backup basic beta blocked bronze bulk canceled
captured central clean closed cold compact complete critical declined deferred delayed delivered digital direct
disputed domestic draft dormant east economy elevated enterprise escalated expired express external failed final
flexible frozen general global gold green guest held hybrid idle imported inactive indirect internal invalid junior
legacy limited live local locked lost major manual medium merged minor mobile monthly national new night nominal normal
north offline online open outbound overdue paid partial passive paused pending pilot planned premium priority private
processed public quarterly queued ready rejected released remote repaired reserved restricted resumed retail returned
running scheduled senior settled shared shipped silver skipped south special stable staged standard stopped suspended
temporary transit trial unpaid urgent vacant verified virtual void waiting waived warm weekly west wholesale
""")
ADJECTIVES = words("""
accepted active adjusted aged allowed archived available balanced billable blocked busy cached candidate capped chosen
cleaned closed compact complete confirmed costly covered current delayed distinct doubtful dropped due early eligible
exact expected expired extra faulty fresh frozen frequent grouped heavy hidden idle incoming inner invalid kept known
large late latest leading linked local lost major marked matching merged minor missing nearby nested newest noisy
normalized oldest open ordered outer overdue pending planned preferred previous priced queued raised ranked rare ready
recent rejected related relevant remaining reserved risky routed safe scaled scored selected settled shared shifted
short signed skipped small sorted spare stale strong surplus tagged trimmed trusted unique unpaid updated urgent usable
valid visible weak weighted
""")
ACTIONS = words("""
accumulate adjust aggregate allocate annotate approve archive assemble assess assign audit balance bill build calculate
cancel capture check classify clean collapse collect combine compare compile compress compute convert count deduplicate
deliver derive detect diff dispatch distribute divide enrich escalate estimate evaluate expand expire export extract
fetch filter find fix flag flatten forecast format gather group handle highlight index infer inspect join label limit
list load locate lock map mark match measure merge migrate monitor normalize notify order pack pair partition pick plan
predict prepare prioritize process project prune publish rank rebalance rebuild reconcile record reduce refresh
register reject release remove rename render renew repair replace report reserve resolve restore retry review rotate
route sample scale schedule score select send settle simulate skip sort split stage submit suggest summarize sync tag
tally track transfer trim update upgrade validate verify void weigh withdraw
""")
