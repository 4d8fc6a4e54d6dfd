"""Starts an engine, watches it and stops it for certain; finds what an earlier, killed run left behind.

engine_process    one engine, as a context manager
leftovers         engines of an earlier run that is gone
family            which processes belong to an engine
ending            ask to stop, wait, kill, wait: until nobody is left
deferred_signals  Ctrl-C during the above hurries it and cannot cut it short
ports             free ports
boot              is the process that began a trial still there?
lock              one tuner at a time on a study folder
operating_system  every call that only some operating systems have
"""
