"""A slow reference of radio, association and routing for one layout, in float64."""

import math

LIGHT, CARRIER = 3.0e8, 2.4e9


def loss_db(channel, drone, user):
    """Path loss between (x, y, z) and (x, y)."""
    level = math.dist(drone[:2], user)
    length = math.hypot(level, drone[2])
    if channel == "free_space":
        return 20.0 * math.log10(length) + 20.0 * math.log10(4.0 * math.pi * CARRIER / LIGHT)
    if channel == "urban":
        return 128.1 + 37.6 * math.log10(length / 1000.0)
    if channel == "suburban":
        return 120.0 + 35.0 * math.log10(length / 1000.0)
    angle = math.degrees(math.atan2(drone[2], level))
    sight = 1.0 / (1.0 + 5.0 * math.exp(-0.6 * (angle - 5.0)))
    carrier = 20.0 * math.log10(CARRIER / 1e9)
    seen = 28.0 + 22.0 * math.log10(length) + carrier
    return sight * seen + (1.0 - sight) * (22.7 + 41.0 * math.log10(length) + carrier)


def sinr_rows(channel, drones, users, power=20.0, noise=-104.0):
    """sinr[i][j] of drone i at user j, dB."""
    received = [[power - loss_db(channel, drone, user) for user in users] for drone in drones]
    return [
        [
            received[i][j]
            - 10.0
            * math.log10(
                10.0 ** (noise / 10.0)
                + sum(10.0 ** (received[k][j] / 10.0) for k in range(len(drones)) if k != i)
            )
            for j in range(len(users))
        ]
        for i in range(len(drones))
    ]


def greedy(sinr, threshold, most):
    """The server of every user, -1 for none: pairs in descending order, while there is room."""
    pairs = sorted(
        ((sinr[i][j], i, j) for i in range(len(sinr)) for j in range(len(sinr[0]))),
        key=lambda pair: (-pair[0], pair[2], pair[1]),
    )
    server, load = [-1] * len(sinr[0]), [0] * len(sinr)
    for level, i, j in pairs:
        if level >= threshold and load[i] < most and server[j] < 0:
            server[j], load[i] = i, load[i] + 1
    return server


def path(start, near, linked, most):
    """Drones from start to one that has a station, by breadth-first search; None if there is none."""
    queue, seen = [[start]], {start}
    while queue:
        way = queue.pop(0)
        if near[way[-1]]:
            return way
        if len(way) == most:
            continue
        for mate in range(len(near)):
            if linked[way[-1]][mate] and mate not in seen:
                seen.add(mate)
                queue.append([*way, mate])
    return None
