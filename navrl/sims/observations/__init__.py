"""What an aircraft is told about the fight, for any aircraft: learners, team mates, frozen opponents."""
