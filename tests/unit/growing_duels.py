"""Games of the SDK: duels that are added as others end, and duels of different lengths beside one another."""

from sdk_games import Chooser, Duelist, finish

from palaestra import sdk


@sdk.game
def growing(academy: sdk.Academy) -> None:
    """One more duel every 20 steps, up to five, on a step with which others end."""
    duels = [(academy.add(Duelist(1)), academy.add(Duelist(0)))]
    steps = 0

    @academy.on_step
    def judge() -> None:
        nonlocal steps
        steps += 1
        for two, one in duels:
            if one.turns >= 5:
                finish(one, two)
        if steps % 20 == 0 and len(duels) < 5:
            duels.append((academy.add(Duelist(1)), academy.add(Duelist(0))))


@sdk.game
def watched(academy: sdk.Academy) -> None:
    """A duel beside somebody of another behavior, who appears later and whose episodes end at other times."""
    two, one = academy.add(Duelist(1)), academy.add(Duelist(0))
    steps = 0

    @academy.on_step
    def judge() -> None:
        nonlocal steps
        steps += 1
        if steps == 7:
            academy.add(Chooser())
        if one.turns >= 5:
            finish(one, two)


@sdk.game
def side_by_side(academy: sdk.Academy) -> None:
    """Duels of 4, 7 and 9 turns, which hardly ever end together."""
    duels = [(turns, academy.add(Duelist(1)), academy.add(Duelist(0))) for turns in (4, 7, 9)]

    @academy.on_step
    def judge() -> None:
        for turns, two, one in duels:
            if one.turns >= turns:
                finish(one, two)


@sdk.game
def staggered(academy: sdk.Academy) -> None:
    """Two duels of four turns that never end together."""
    duels = [(academy.add(Duelist(1)), academy.add(Duelist(0))) for _ in range(2)]
    steps = 0

    @academy.on_step
    def judge() -> None:
        nonlocal steps
        steps += 1
        for i, (two, one) in enumerate(duels):
            if steps % 4 == 2 * i:
                one.end_episode()
                two.end_episode()
