"""What people do with a device, one file a purpose: functions on an opened `Device`, or on the folder of one.

They raise errors of ours, write in transactions of their own, and return values; a command prints these.
"""
