"""The lab: pages that show what a log of tuning records and a fleet of devices say, while it
happens."""
