"""Networks: encoders and bodies, what a policy draws from, and the policy that answers a TimeStep."""
