"""Training that goes on after a crash: what is saved, and when."""
