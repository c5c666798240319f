"""Palaestra on the built-in CartPole. usage: cartpole_palaestra_builtin.py SEED"""

import sys

from cartpole_palaestra import main

if __name__ == "__main__":
    main(int(sys.argv[1]), "CartPole")
