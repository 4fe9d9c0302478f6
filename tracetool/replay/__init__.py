"""What if the clock changed the whole run: the timeline at another clock."""
