"""Planners that fly without learning, and the shield over any pilot: functions of what a drone perceives."""
