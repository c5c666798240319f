"""Networks: encoders, bodies, action distributions, and the policy that answers a TimeStep."""
