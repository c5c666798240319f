"""Networks whose critic sees observations that their actor does not (`network_settings.critic_only`)."""
