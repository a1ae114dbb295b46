"""A slow reference of Alice and Bob for one game."""

CLEAR, WALL, ALICE, BOB, BUTTON_0, BUTTON_1, DIAMOND_0, DIAMOND_1 = range(8)
STEPS = {0: (0, 1), 1: (0, -1), 2: (-1, 0), 3: (1, 0), 4: (0, 0)}


class Game:
    """Two places, two diamonds, a clock."""

    def __init__(self, alice, bob, size=8, horizon=100):
        self.places, self.size, self.horizon = [alice, bob], size, horizon
        self.collected, self.time = [False, False], 0
        self.buttons = [(1, size), (1, 1)]
        self.diamonds = [(size, 1), (size, size)]

    def step(self, actions):
        """(reward, terminated, truncated) of both moving at once."""
        for agent, action in enumerate(actions):
            row, column = (a + b for a, b in zip(self.places[agent], STEPS[action], strict=True))
            if self.plan()[row][column] != WALL:
                self.places[agent] = (row, column)
        before = all(self.collected)
        for number in range(2):
            if self.buttons[number] in self.places and self.diamonds[number] in self.places:
                self.collected[number] = True
        self.time += 1
        over = all(self.collected)
        return float(over and not before), over, self.time >= self.horizon and not over

    def plan(self):
        """The grid of codes without agents."""
        side = self.size + 2
        edge = (0, side - 1)
        cells = [
            [WALL if row in edge or column in edge else CLEAR for column in range(side)]
            for row in range(side)
        ]
        for number, (row, column) in enumerate(self.buttons):
            cells[row][column] = BUTTON_0 + number
        for number, (row, column) in enumerate(self.diamonds):
            if not self.collected[number]:
                cells[row][column] = DIAMOND_0 + number
        return cells

    def state(self):
        """All codes, row by row."""
        cells = self.plan()
        for agent, (row, column) in enumerate(self.places):
            cells[row][column] = ALICE + agent
        return [code for line in cells for code in line]

    def observation(self, agent):
        """Return the nine codes around an agent, and where it is."""
        state, (row, column) = self.state(), self.places[agent]
        side = self.size + 2
        around = [
            state[(row + down) * side + column + right]
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        ]
        return [*around, row, column]
