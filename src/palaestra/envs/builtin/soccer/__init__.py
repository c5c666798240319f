"""SoccerTwos and StrikersVsGoalie."""
