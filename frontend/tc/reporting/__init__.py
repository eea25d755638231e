"""Reports: what a compiled model does, where its time and memory go and what tuning found, as one
HTML file that needs neither a network nor a script, and as JSON."""
