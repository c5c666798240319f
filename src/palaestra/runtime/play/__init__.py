"""Who answers for which agents: models, teachers, players and rules; and how well they do."""
