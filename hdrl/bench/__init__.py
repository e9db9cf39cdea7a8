"""A standing benchmark that checks itself: tasks, results of anybody, and a board of those that are true."""
