/* One step of drones that serve users, its reward, and the histograms observed after it, written by hand:
 * the yardstick of navrl/envs/coverage/sim/advance.py and navrl/envs/coverage/observations.py.
 *
 * In free space, where a link has to be louder than all that disturbs it, only the nearest drone can serve a
 * user: so powers are never turned into decibels, and logarithms are taken of one link a user. A point lies in
 * four cells, but adding a part to every cell, mostly 0, needs no addresses: all envs of a block do the same.
 *
 * A block of envs goes through the whole step before the next one begins, so all but its tensors stays in the
 * first level of the cache. It is as wide as a register of AVX-512, and nearly all sums of a histogram fit into
 * those. Openings of episodes, their statistics and restarts are left out.
 */
#include <math.h>
#include <stdint.h>

enum { BLOCK = 16, AXES = 3, CELLS = SIDE_CELLS * SIDE_CELLS, OWN = AXES + 1, CRITIC = AXES * DRONES + CELLS + 1 };

#define LANES _Pragma("omp simd") for (int j = 0; j < BLOCK; j++)
#define EACH(number, count) for (int number = 0; number < count; number++)
#define STAGE static inline __attribute__((always_inline))

/* Rows of n envs. */
typedef struct {
    const float *position; /* (AXES, DRONES) metres */
    const float *place;    /* (2, USERS) of the users, metres */
    const int32_t *step;
} Before;

typedef struct {
    float *position, *load, *quality, *rate_mbps; /* of the drones */
    int32_t *step;
    float *reward;                       /* the team's, then its three parts */
    float *own, *users, *mates, *critic; /* observations */
} After;

typedef float Row[BLOCK];
typedef int32_t Numbers[BLOCK];

/* A block on its way through a step. */
typedef struct {
    Row at[AXES][DRONES], place[2][USERS], time;
    Numbers asked[USERS], server[USERS]; /* a drone; -1: nobody */
    Row level[USERS];                    /* signal to interference and noise, a ratio */
    Row quality[USERS], rate_mbps[USERS];
    Row load[DRONES], good[DRONES], carried_mbps[DRONES];
} Block;

STAGE float within(float low, float value, float high) {
    value = value < high ? value : high;
    return value > low ? value : low;
}

STAGE float positive(float value) { return value > 0.0f ? value : 0.0f; }

STAGE void fly(Block *b, const Before *before, const float *action, long n) {
    static const float low[AXES] = {0.0f, 0.0f, LOW_M}, high[AXES] = {SIDE_M, SIDE_M, HIGH_M};
    EACH(axis, AXES) EACH(d, DRONES) {
        long row = (axis * DRONES + d) * n;
        LANES {
            float way_m = within(-1.0f, action[row + j], 1.0f) * WAY_M;
            b->at[axis][d][j] = within(low[axis], before->position[row + j] + way_m, high[axis]);
        }
    }
    EACH(axis, 2) EACH(m, USERS) {
        const float *place = before->place + (axis * USERS + m) * n;
        LANES b->place[axis][m][j] = place[j];
    }
    LANES b->time[j] = (before->step[j] + 1) * (1.0f / HORIZON);
}

/* Every user asks the drone that it hears best, if that is loud enough. */
STAGE void ask(Block *b) {
    EACH(m, USERS) LANES {
        float best = 0.0f, others = 0.0f; /* powers, in parts of that at one metre */
        int32_t nearest = -1;
        EACH(d, DRONES) {
            float x = b->at[0][d][j] - b->place[0][m][j], y = b->at[1][d][j] - b->place[1][m][j];
            float square_m2 = x * x + y * y + b->at[2][d][j] * b->at[2][d][j];
            float power = 1.0f / (square_m2 > LEAST_M2 ? square_m2 : LEAST_M2);
            int nearer = power > best;
            nearest = nearer ? d : nearest;
            others += nearer ? best : power; /* never a difference: it would cancel */
            best = nearer ? power : best;
        }
        float level = best / (others + NOISE);
        b->level[m][j] = level;
        b->asked[m][j] = level >= MIN_LEVEL ? nearest : -1;
    }
}

/* A drone takes its best; of users that are as good, the earlier. */
STAGE void take(Block *b) {
    EACH(m, USERS) {
        Numbers ahead = {0};
        for (int other = 0; other < m; other++)
            LANES ahead[j] += (b->asked[other][j] == b->asked[m][j]) & (b->level[other][j] >= b->level[m][j]);
        for (int other = m + 1; other < USERS; other++)
            LANES ahead[j] += (b->asked[other][j] == b->asked[m][j]) & (b->level[other][j] > b->level[m][j]);
        LANES b->server[m][j] = ahead[j] < MAX_USERS ? b->asked[m][j] : -1;
    }
}

STAGE void serve(Block *b) {
    EACH(m, USERS) LANES {
        float above_db = DECIBELS * logf(b->level[m][j]) - MIN_DB;
        b->quality[m][j] = within(0.0f, above_db * (1.0f / SPAN_DB), 1.0f);
        b->rate_mbps[m][j] = NAT_MBPS * logf(1.0f + b->level[m][j]); /* 2 or more, where it counts */
    }
    EACH(d, DRONES) LANES {
        float load = 0.0f, good = 0.0f, carried_mbps = 0.0f;
        EACH(m, USERS) {
            int mine = b->server[m][j] == d;
            load += mine ? 1.0f : 0.0f;
            good += mine ? b->quality[m][j] : 0.0f;
            carried_mbps += mine ? b->rate_mbps[m][j] : 0.0f;
        }
        b->load[d][j] = load, b->good[d][j] = good, b->carried_mbps[d][j] = carried_mbps;
    }
}

STAGE void settle(const Block *b, const Before *before, const After *after, long n) {
    EACH(axis, AXES) EACH(d, DRONES) LANES after->position[(axis * DRONES + d) * n + j] = b->at[axis][d][j];
    EACH(d, DRONES) LANES {
        after->load[d * n + j] = b->load[d][j];
        after->quality[d * n + j] = b->good[d][j];
        after->rate_mbps[d * n + j] = b->carried_mbps[d][j];
    }
    LANES {
        float served = 0.0f, good = 0.0f, above_m = 0.0f;
        EACH(d, DRONES) {
            served += b->load[d][j], good += b->good[d][j];
            above_m += b->at[2][d][j] - LOW_M;
        }
        float coverage = WEIGHT_COVERAGE / USERS * served;
        float quality = WEIGHT_QUALITY * good / (served > 1.0f ? served : 1.0f);
        float height = WEIGHT_HEIGHT / ((HIGH_M - LOW_M) * DRONES) * above_m;
        after->reward[j] = coverage + quality + height;
        after->reward[n + j] = coverage, after->reward[2 * n + j] = quality, after->reward[3 * n + j] = height;
        after->step[j] = before->step[j] + 1;
    }
}

/* Soft counts of points on the cells around (x, y): along both axes a point belongs to a cell by what is left
 * of one cell's length between their middles. In 1/256 of a cell all sums are exact. */
STAGE void count(const Row *at_x, const Row *at_y, int points, const float *x, const float *y, float cell_m,
                 float *cells, long n) {
    const float middle = 0.5f * (SIDE_CELLS - 1), fine = 256.0f, per_m = 1.0f / cell_m;
    const float share = 1.0f / points / (fine * fine);
    Row sum[SIDE_CELLS][SIDE_CELLS] = {0};
    EACH(m, points) LANES {
        float column = within(-middle, (at_x[m][j] - x[j]) * per_m, middle) + middle;
        float row = within(-middle, (at_y[m][j] - y[j]) * per_m, middle) + middle, part[SIDE_CELLS];
        column = rintf(column * fine), row = rintf(row * fine);
        EACH(r, SIDE_CELLS) part[r] = positive(fine - fabsf(row - fine * r));
        EACH(c, SIDE_CELLS) {
            float across = positive(fine - fabsf(column - fine * c));
            EACH(r, SIDE_CELLS) sum[c][r][j] += across * part[r];
        }
    }
    EACH(c, SIDE_CELLS) EACH(r, SIDE_CELLS) LANES cells[(c * SIDE_CELLS + r) * n + j] = sum[c][r][j] * share;
}

/* Observations of every drone, and the state for a critic of the whole team. */
STAGE void tell(const Block *b, const After *after, long n) {
    EACH(d, DRONES) {
        const float *x = b->at[0][d], *y = b->at[1][d], *z = b->at[2][d];
        float *own = after->own + d * OWN * n, *critic = after->critic + d * AXES * n;
        LANES {
            own[j] = 2.0f / SIDE_M * x[j] - 1.0f, own[n + j] = 2.0f / SIDE_M * y[j] - 1.0f;
            own[2 * n + j] = 2.0f / (HIGH_M - LOW_M) * (z[j] - LOW_M) - 1.0f;
            own[3 * n + j] = b->time[j];
        }
        EACH(axis, AXES) LANES critic[axis * n + j] = b->at[axis][d][j] * (1.0f / SIDE_M);
        count(b->place[0], b->place[1], USERS, x, y, CELL_M, after->users + d * CELLS * n, n);
        count(b->at[0], b->at[1], DRONES, x, y, CELL_M, after->mates + d * CELLS * n, n);
    }
    Row middle;
    LANES middle[j] = 0.5f * SIDE_M;
    float *counts = after->critic + AXES * DRONES * n;
    count(b->place[0], b->place[1], USERS, middle, middle, SIDE_M / SIDE_CELLS, counts, n);
    LANES after->critic[(CRITIC - 1) * n + j] = b->time[j];
}

/* n is a multiple of BLOCK. */
void step(const Before *before, const float *action, const After *after, long n) {
    for (long e = 0; e < n; e += BLOCK) {
        Before from = {before->position + e, before->place + e, before->step + e};
        After to = {after->position + e, after->load + e, after->quality + e, after->rate_mbps + e, after->step + e,
                    after->reward + e,   after->own + e,  after->users + e,   after->mates + e,     after->critic + e};
        Block b;
        fly(&b, &from, action + e, n);
        ask(&b);
        take(&b);
        serve(&b);
        settle(&b, &from, &to, n);
        tell(&b, &to, n);
    }
}
