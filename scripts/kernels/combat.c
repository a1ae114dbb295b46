/* One decision of n duels, written by hand: the yardstick for the compiled simulator.
 *
 * The rules and the formulas of navrl/envs/combat/sim for one aircraft and one missile on each side, in the cheapest
 * form that float32 cannot tell from theirs. combat.py compiles it, with the constants of
 * conf/env/combat.yaml as macros, and checks it against the simulator.
 *
 * A block of envs goes through a whole decision before the next one begins, so all ticks run in the first
 * level of the cache. A tick is a row of short loops over the block: one long loop would do the same
 * arithmetic, but it is a chain of dependent operations that the processor can hardly overlap.
 */
#include <stdint.h>

enum { BLOCK = 64, SIDES = 2, VEHICLES = 4 }; /* vehicles: both aircraft, then the missile of each */

#define LANES _Pragma("omp simd") for (int j = 0; j < BLOCK; j++)
#define SIDE for (int side = 0; side < SIDES; side++)
#define STAGE static inline __attribute__((always_inline))

/* The tensors of CombatState, Action and Events: rows of n, side 0 first. */
typedef struct {
    float *x_m, *y_m, *cos_heading, *sin_heading, *speed_mps;
} Motion;

typedef struct {
    Motion aircraft;
    float *rudder, *throttle;
    uint8_t *alive;
    int32_t *rounds, *cooldown;
    Motion missile;
    uint8_t *active;
    int32_t *age_ticks, *target;
    int32_t *decision; /* one row */
} State;

typedef struct {
    const float *rudder, *throttle;
    const uint8_t *fire;
} Action;

typedef struct {
    uint8_t *launched, *hit, *killed, *missed, *defeated;
} Events;

/* A block on its way through a decision; flags are 0 or 1 and as wide as a float. */
typedef struct {
    float x[VEHICLES][BLOCK], y[VEHICLES][BLOCK], cos[VEHICLES][BLOCK], sin[VEHICLES][BLOCK];
    float speed[VEHICLES][BLOCK];
    float bend[VEHICLES][BLOCK]; /* curvature of the tick's arc, 1/m */
    float path[VEHICLES][BLOCK]; /* its length, 0 for who does not move */
    float drag[SIDES][BLOCK], stretch[SIDES][BLOCK], push[SIDES][BLOCK]; /* of an aircraft: */
    float keep[SIDES][BLOCK], gain[SIDES][BLOCK];                        /* see order() */
    float ahead_x[SIDES][BLOCK], ahead_y[SIDES][BLOCK];                  /* missile to target */
    int32_t alive[SIDES][BLOCK], fire[SIDES][BLOCK], launched[SIDES][BLOCK], rounds[SIDES][BLOCK];
    int32_t active[SIDES][BLOCK], age[SIDES][BLOCK], hit[SIDES][BLOCK], missed[SIDES][BLOCK];
    int32_t armed[BLOCK], running[BLOCK];
} Block;

STAGE float least(float a, float b) { return a < b ? a : b; }
STAGE float most(float a, float b) { return a > b ? a : b; }

/* ---- before the ticks ---- */

STAGE void widen(int32_t *restrict to, const uint8_t *restrict from)
{
    for (int j = 0; j < BLOCK; j++) to[j] = from[j];
}

STAGE void narrow(uint8_t *restrict to, const int32_t *restrict from)
{
    for (int j = 0; j < BLOCK; j++) to[j] = (uint8_t)from[j];
}

/* Everything into the block, and launches: a new missile takes the place of the parked one. */
STAGE void load(Block *restrict b, State in, Action act, State out, long n, long k)
{
    const Motion craft = in.aircraft, shot = in.missile;
    SIDE {
        widen(b->fire[side], act.fire + side * n + k);
        widen(b->alive[side], in.alive + side * n + k);
        widen(b->active[side], in.active + side * n + k);
    }
    LANES {
        int armed = (in.rounds[k + j] > 0) | (in.rounds[n + k + j] > 0);
        b->running[j] = b->alive[0][j] & b->alive[1][j] & (armed | b->active[0][j] | b->active[1][j]);
    }
    SIDE LANES {
        long p = side * n + k + j;
        int rounds = in.rounds[p], wait = in.cooldown[p];
        int new = b->fire[side][j] & b->running[j] & (rounds > 0) & (wait == 0) & !b->active[side][j];
        float x = craft.x_m[p], y = craft.y_m[p];
        float cos = craft.cos_heading[p], sin = craft.sin_heading[p], speed = craft.speed_mps[p];
        b->x[side][j] = x, b->y[side][j] = y, b->speed[side][j] = speed;
        b->cos[side][j] = cos, b->sin[side][j] = sin;
        b->x[2 + side][j] = new ? x + LAUNCH_OFFSET_M * cos : shot.x_m[p];
        b->y[2 + side][j] = new ? y + LAUNCH_OFFSET_M * sin : shot.y_m[p];
        b->cos[2 + side][j] = new ? cos : shot.cos_heading[p];
        b->sin[2 + side][j] = new ? sin : shot.sin_heading[p];
        b->speed[2 + side][j] = new ? speed : shot.speed_mps[p];
        b->age[side][j] = new ? 0 : in.age_ticks[p];
        b->launched[side][j] = new, b->active[side][j] |= new, b->rounds[side][j] = rounds - new;
        b->hit[side][j] = b->missed[side][j] = 0;
        out.target[p] = new ? 1 - side : in.target[p];
        out.cooldown[p] = new ? COOLDOWN_DECISIONS : wait - (wait > 0);
    }
    LANES {
        b->armed[j] = (b->rounds[0][j] > 0) | (b->rounds[1][j] > 0);
        b->running[j] &= b->armed[j] | b->active[0][j] | b->active[1][j];
        out.decision[k + j] = in.decision[k + j] + 1;
    }
}

/* What rudder and thrust of an aircraft mean, the same in every tick of a decision. With a = sqrt(T c):
 * stretch = sinh(a dt) / a, push = (cosh(a dt) - 1) / c, keep = cosh(a dt), gain = T sinh(a dt) / a. */
STAGE void order(Block *restrict b, Action act, State out, long n, long k)
{
    SIDE LANES {
        long p = side * n + k + j;
        float rudder = act.rudder[p], throttle = act.throttle[p];
        float bend = rudder * (1.0f / FIGHTER_TURN_RADIUS_M), thrust = throttle * FIGHTER_THRUST_MPS2;
        float drag = FIGHTER_DRAG + FIGHTER_INDUCED * bend * bend, g = thrust * drag;
        float stretch = DT_S + g * (DT_S * DT_S * DT_S / 6);
        float push = thrust * (DT_S * DT_S / 2 + g * (DT_S * DT_S * DT_S * DT_S / 24));
        b->bend[side][j] = bend, b->drag[side][j] = drag, b->stretch[side][j] = stretch;
        b->push[side][j] = push, b->keep[side][j] = 1.0f + drag * push;
        b->gain[side][j] = thrust * stretch;
        out.rudder[p] = rudder, out.throttle[p] = throttle;
    }
}

/* ---- one tick ---- */

/* Proportional navigation of both missiles from where everybody is before the tick. */
STAGE void guide(Block *restrict b)
{
    SIDE LANES {
        int me = 2 + side, prey = 1 - side;
        float x = b->x[prey][j] - b->x[me][j], y = b->y[prey][j] - b->y[me][j];
        float own = b->speed[me][j], other = b->speed[prey][j];
        float vx = other * b->cos[prey][j] - own * b->cos[me][j];
        float vy = other * b->sin[prey][j] - own * b->sin[me][j];
        float square = most(x * x + y * y, 1.0f) * most(own, 1.0f);
        float rudder = (x * vy - y * vx) * (NAVIGATION_GAIN * MISSILE_TURN_RADIUS_M) / square;
        b->bend[me][j] = least(most(rudder, -1.0f), 1.0f) * (1.0f / MISSILE_TURN_RADIUS_M);
        b->ahead_x[side][j] = x, b->ahead_y[side][j] = y;
    }
}

/* Path q log1p(w) / w and new speed of the aircraft, where w = c q stays below 0.014 and so the series of
 * log1p(w) / w and 1 / (1 + w) are short. */
STAGE void push_aircraft(Block *restrict b)
{
    SIDE LANES {
        float speed = b->speed[side][j];
        float q = speed * b->stretch[side][j] + b->push[side][j], w = b->drag[side][j] * q, ww = w * w;
        float path = q * ((1.0f - w * (1.0f / 2)) + ww * (1.0f / 3 - w * (1.0f / 4)));
        float after = (speed * b->keep[side][j] + b->gain[side][j]) * ((1.0f - w) * (1.0f + ww));
        b->path[side][j] = b->running[j] ? path : 0.0f;
        b->speed[side][j] = b->running[j] ? after : speed;
    }
}

/* The same of the missiles, whose rudder and thrust change; log1p(w) / w fitted to 2e-9 up to w = 0.18. */
STAGE void push_missiles(Block *restrict b)
{
    SIDE LANES {
        float speed = b->speed[2 + side][j], bend = b->bend[2 + side][j];
        float thrust = b->age[side][j] < BURN_TICKS ? MISSILE_THRUST_MPS2 : 0.0f;
        float drag = MISSILE_DRAG + MISSILE_INDUCED * bend * bend, g = thrust * drag;
        float stretch = DT_S + g * (DT_S * DT_S * DT_S / 6);
        float push = thrust * (DT_S * DT_S / 2 + g * (DT_S * DT_S * DT_S * DT_S / 24));
        float q = speed * stretch + push, w = drag * q, ww = w * w;
        float low = 1.0f - 0.49999939f * w, middle = 0.33329339f - 0.24903094f * w;
        float path = q * (low + ww * (middle + ww * (0.18914664f - 0.10778735f * w)));
        float after = (speed + speed * (drag * push) + thrust * stretch) / (1.0f + w);
        int live = b->active[side][j] & b->running[j];
        b->path[2 + side][j] = live ? path : 0.0f;
        b->speed[2 + side][j] = live ? after : speed;
    }
}

/* Everybody along the chord of the arc, and the heading round by its angle. */
STAGE void turn(Block *restrict b)
{
    for (int vehicle = 0; vehicle < VEHICLES; vehicle++) LANES {
        float cos = b->cos[vehicle][j], sin = b->sin[vehicle][j], path = b->path[vehicle][j];
        float half = 0.5f * b->bend[vehicle][j] * path, h = half * half;
        float sinc = 1.0f - h * (1.0f / 6 - h * (1.0f / 120));
        float cos_h = 1.0f - h * (1.0f / 2 - h * (1.0f / 24)), sin_h = half * sinc;
        float cos_mid = cos * cos_h - sin * sin_h, sin_mid = sin * cos_h + cos * sin_h;
        b->x[vehicle][j] += path * sinc * cos_mid;
        b->y[vehicle][j] += path * sinc * sin_mid;
        /* The old heading mirrored at the middle one: two operations fewer than another rotation. */
        b->cos[vehicle][j] = 2.0f * cos_h * cos_mid - cos;
        b->sin[vehicle][j] = 2.0f * cos_h * sin_mid - sin;
    }
}

/* Hits along the relative chord, without a division: the distance of the chord's line from the target
 * where the closest point lies on the chord, else the distance of its ends. */
STAGE void strike(Block *restrict b)
{
    const float reach = HIT_RADIUS_M * HIT_RADIUS_M;
    SIDE LANES {
        float x = b->ahead_x[side][j], y = b->ahead_y[side][j];
        float x1 = b->x[1 - side][j] - b->x[2 + side][j], y1 = b->y[1 - side][j] - b->y[2 + side][j];
        float dx = x1 - x, dy = y1 - y, cross = x * dy - y * dx;
        float along = -(x * dx + y * dy), length = dx * dx + dy * dy;
        int between = (along > 0.0f) & (along < length) & (cross * cross < reach * length);
        int near = (x * x + y * y < reach) | (x1 * x1 + y1 * y1 < reach) | between;
        int live = b->active[side][j] & b->running[j], age = b->age[side][j] + live;
        int slow = (age >= BURN_TICKS) & (b->speed[2 + side][j] < SELF_DESTRUCT_SPEED_MPS);
        int hit = live & near, missed = live & (slow | (age >= MAX_AGE_TICKS)) & (hit ^ 1);
        b->age[side][j] = age;
        b->active[side][j] &= (hit | missed) ^ 1;
        b->hit[side][j] |= hit, b->missed[side][j] |= missed;
    }
    LANES {
        int over = b->hit[0][j] | b->hit[1][j]; /* hits are final: with one aircraft the fight ends */
        b->running[j] &= (over ^ 1) & (b->armed[j] | b->active[0][j] | b->active[1][j]);
    }
}

/* ---- after the ticks ---- */

STAGE void store(Block *restrict b, State out, Events e, long n, long k)
{
    for (int vehicle = 0; vehicle < VEHICLES; vehicle++) {
        const Motion to = vehicle < SIDES ? out.aircraft : out.missile;
        LANES {
            long p = vehicle % SIDES * n + k + j;
            float cos = b->cos[vehicle][j], sin = b->sin[vehicle][j];
            float scale = 1.0f / __builtin_sqrtf(cos * cos + sin * sin);
            to.x_m[p] = b->x[vehicle][j], to.y_m[p] = b->y[vehicle][j];
            to.cos_heading[p] = b->cos[vehicle][j] = cos * scale;
            to.sin_heading[p] = b->sin[vehicle][j] = sin * scale;
            to.speed_mps[p] = b->speed[vehicle][j];
        }
    }
    SIDE {
        long p = side * n + k;
        LANES {
            b->alive[side][j] &= b->hit[1 - side][j] ^ 1;
            out.rounds[p + j] = b->rounds[side][j], out.age_ticks[p + j] = b->age[side][j];
        }
        narrow(out.alive + p, b->alive[side]);
        narrow(out.active + p, b->active[side]);
        narrow(e.launched + p, b->launched[side]);
        narrow(e.hit + p, b->hit[side]);
        narrow(e.killed + p, b->hit[1 - side]);
        narrow(e.missed + p, b->missed[side]);
        narrow(e.defeated + p, b->missed[1 - side]);
    }
}

/* ---- the ego observation of aircraft 0 ---- */

typedef struct {
    float square, inverse_range, cos_bearing, sin_bearing, cos_aspect, sin_aspect, closing, sight_rate;
} View;

STAGE View look(const Block *b, int from, int to, int j)
{
    float x = b->x[to][j] - b->x[from][j], y = b->y[to][j] - b->y[from][j];
    float square = most(x * x + y * y, 1.0f), inverse = 1.0f / __builtin_sqrtf(square);
    float cos = b->cos[from][j], sin = b->sin[from][j], c = b->cos[to][j], s = b->sin[to][j];
    float vx = b->speed[to][j] * c - b->speed[from][j] * cos;
    float vy = b->speed[to][j] * s - b->speed[from][j] * sin;
    x *= inverse, y *= inverse;
    return (View){square, inverse, cos * x + sin * y, cos * y - sin * x, cos * c + sin * s,
                  cos * s - sin * c, -(x * vx + y * vy), (x * vy - y * vx) * inverse};
}

/* ln(x) from the exponent and 2 atanh((m - 1) / (m + 1)) of a mantissa between 0.7 and 1.41. */
STAGE float logarithm(float x)
{
    union { float value; int32_t bits; } number = {x};
    int32_t exponent = (number.bits - 0x3f3504f3) >> 23;
    number.bits -= exponent << 23;
    float z = (number.value - 1.0f) / (number.value + 1.0f), zz = z * z;
    float series = 1.0f + zz * (1.0f / 3 + zz * (1.0f / 5 + zz * (1.0f / 7 + zz * (1.0f / 9))));
    return 0.693147181f * (float)exponent + 2.0f * z * series;
}

STAGE float clip(float value) { return least(most(value, -5.0f), 5.0f); }

/* Where no missile flies its eight rows are 0; rows that cannot leave +-5 are not clipped. */
STAGE void observe_missile(Block *restrict b, float *restrict row, long n, int side)
{
    LANES {
        View v = side ? look(b, 0, 3, j) : look(b, 2, 1, j);
        float on = (float)b->active[side][j], range = v.square * v.inverse_range;
        row[0 * n + j] = on;
        row[1 * n + j] = on * (float)b->age[side][j] * (DT_S / 80.0f);
        row[2 * n + j] = on * b->speed[2 + side][j] * (1.0f / 1000.0f);
        row[3 * n + j] = on * clip(range * (1.0f / 50000.0f));
        row[4 * n + j] = on * (side ? v.sin_bearing : -v.sin_bearing);
        row[5 * n + j] = on * v.cos_bearing;
        row[6 * n + j] = on * clip(v.closing * (1.0f / 1000.0f));
        row[7 * n + j] = on * least(range / most(v.closing, 1.0f), 60.0f) * (1.0f / 60.0f);
    }
}

STAGE void observe(Block *restrict b, State out, float *restrict row, long n, long k)
{
    LANES {
        View v = look(b, 0, 1, j);
        float speed = b->speed[0][j], rudder = out.rudder[k + j];
        float load = speed * speed * most(rudder, -rudder);
        int ready = b->alive[0][j] & (b->rounds[0][j] > 0) & (b->active[0][j] ^ 1);
        row[0 * n + j] = clip(speed * (1.0f / 400.0f));
        row[1 * n + j] = rudder;
        row[2 * n + j] = clip(load * (1.0f / (10.0f * FIGHTER_TURN_RADIUS_M * 9.8f)));
        row[3 * n + j] = (float)b->rounds[0][j] * (1.0f / ROUNDS);
        row[4 * n + j] = (float)(ready & (out.cooldown[k + j] == 0));
        row[5 * n + j] = clip(1.0f - (float)out.decision[k + j] * (STEP_S / TIME_LIMIT_S));
        row[6 * n + j] = clip(0.5f * logarithm(v.square) - 9.21034037f); /* ln(10 km) */
        row[7 * n + j] = clip(v.square * v.inverse_range * (1.0f / 50000.0f));
        row[8 * n + j] = v.sin_bearing;
        row[9 * n + j] = v.cos_bearing;
        row[10 * n + j] = v.sin_aspect;
        row[11 * n + j] = v.cos_aspect;
        row[12 * n + j] = clip(b->speed[1][j] * (1.0f / 400.0f));
        row[13 * n + j] = clip(v.closing * (1.0f / 1000.0f));
        row[14 * n + j] = clip(v.sight_rate * 10.0f);
        row[15 * n + j] = (float)b->alive[1][j];
    }
    observe_missile(b, row + 16 * n, n, 0);
    observe_missile(b, row + 24 * n, n, 1);
}

/* ---- the two entry points; n is a multiple of BLOCK ---- */

STAGE void decide_block(
    Block *restrict b, State in, Action act, State out, Events e, long n, long k)
{
    load(b, in, act, out, n, k);
    order(b, act, out, n, k);
    for (int tick = 0; tick < TICKS; tick++) {
        guide(b);
        push_aircraft(b);
        push_missiles(b);
        turn(b);
        strike(b);
    }
    store(b, out, e, n, k);
}

void decide(const State *in, const Action *act, const State *out, const Events *e, long n)
{
    Block b;
    for (long k = 0; k < n; k += BLOCK) decide_block(&b, *in, *act, *out, *e, n, k);
}

void decide_and_observe(
    const State *in, const Action *act, const State *out, const Events *e, float *rows, long n)
{
    Block b;
    for (long k = 0; k < n; k += BLOCK) {
        decide_block(&b, *in, *act, *out, *e, n, k);
        observe(&b, *out, rows + k, n, k);
    }
}
