/* One decision of n drones, written by hand: the yardstick of navrl/envs/navigation/sim/advance.py.
 *
 * The rules and formulas of navrl/envs/navigation/sim for the second-order drone, without delays and without a shield, in the
 * cheapest form that float32 cannot tell from theirs. navigation.py compiles it, with the constants of
 * conf/env/navigation*.yaml as macros. What the simulator leaves as it was is not written again.
 *
 * A moving obstacle draws a goal only when it needs one. With SHORTCUTS, which tensors cannot take, the empty
 * places of a cell's list and obstacles out of reach are left out, and an obstacle is cut with those rays only
 * that can meet it; else every ray with every place of the list, as in navrl/envs/navigation/sim/lidar.py.
 */
#include <math.h>
#include <stdint.h>

enum {
    BLOCK = 64,   /* envs that go through a whole decision before the next ones */
    PACK = 16,    /* of their scans, that are turned round at once */
    WINDOW = 16,  /* neighbouring rays that are cut with an obstacle at once */
    RINGS = 4,
    SPAN = BEAMS + WINDOW, /* so a window need not end at the last beam */
    RAYS = BEAMS * RINGS,
    SLOTS = 16 * ((BOX_SLOTS + 15) / 16), /* places of a cell's list, in whole vectors */
    ROUNDS = 16 * ((CYLINDER_SLOTS + 15) / 16),
    KINDS = 8, WIDTHS = 4, DRAWS = 5,
    MOVING = 5, /* the stream of random numbers */
    HALVINGS = 8, /* of a flight, until the part in which it comes nearest is short */
    NOBODY = 0x7fffffff,
    COLUMNS_FROM = COUNT / 2,
};
enum { WAYPOINT, BOUNCING, CROSSING, STOP_AND_GO }; /* what a moving obstacle is */
enum { GO_ON, HALT, TURN };                         /* and does at the end of a step */

#define FAR_M 1e6f      /* where obstacles lie that are not there */
#define NO_HIT_M 1e9f   /* what no ray reaches */
#define LEAST_M 1e-6f   /* a shorter way has no direction */
#define NOT_ZERO 1.2345e-13f /* added to components of directions before a division, as in navrl/envs/navigation/sim/lidar.py */
#define COLUMN_Z_M 2.5f

#define SIMD _Pragma("omp simd")
#define LANES SIMD for (int j = 0; j < BLOCK; j++)
#define STAGE static inline __attribute__((always_inline))

/* The tensors of NavigationState in their order: rows of n. */
typedef struct {
    float *x, *y, *z; /* (COUNT, n) each */
} Triple;

typedef struct {
    int64_t *key;
    float *decision;
    int32_t *world;
    float *stage, *start, *goal, *position, *velocity, *acceleration; /* (3, n) */
    Triple place, speed, aim, home;
    float *static_gap, *scan; /* scan: (RAYS, n), beam by beam */
    float *pending, *gain, *lag, *latency, *wind;
    float *time, *path, *clearance, *jolt, *interventions, *change;
    uint8_t *reached, *hit_static, *hit_moving, *outside, *at_goal;
} State;

/* The tensors of Worlds. */
typedef struct {
    const float *x, *y, *half_x, *half_y, *cos, *sin, *bottom, *top;
    const float *round_x, *round_y, *radius, *round_bottom, *round_top;
    const int32_t *box_cells, *round_cells;
} Worlds;

/* The tensors of Near: rows of (NEAR, n). */
typedef struct {
    float *offset, *velocity, *radius, *half_height;
    uint8_t *upright, *present;
} Near;

typedef struct {
    float x[BLOCK], y[BLOCK], z[BLOCK], vx[BLOCK], vy[BLOCK], vz[BLOCK]; /* drones after the step */
    float cos[BLOCK], sin[BLOCK];                                         /* of the heading */
    float way[BLOCK], way_x[BLOCK], way_y[BLOCK], way_z[BLOCK], jolt[BLOCK];
    float draw[DRAWS][BLOCK];
    int32_t deed[BLOCK], order[NEAR][BLOCK], hit_moving[BLOCK];
    float moving_gap[BLOCK], gap[BLOCK];
} Block;

/* Constants, so that gcc knows which ring looks up and which down: that is a quarter of the time. */
#define RADIANS 0.017453292519943295
#define RING(f) {f(0), f(1), f(2), f(3)}
#define SLOPE(r) (float)__builtin_tan((RING_LOW_DEG + r * RING_STEP_DEG) * RADIANS)
#define SLANT(r) (float)(1.0 / __builtin_cos((RING_LOW_DEG + r * RING_STEP_DEG) * RADIANS))
static const float slope[RINGS] = RING(SLOPE), slant[RINGS] = RING(SLANT);
static float beam_cos[SPAN], beam_sin[SPAN]; /* from the heading; the last ones are from beam 0 again */

/* Fills the tables of beams; once. */
void prepare(void)
{
    for (int l = 0; l < SPAN; l++) {
        double azimuth = 360.0 / BEAMS * (l % BEAMS) * RADIANS;
        beam_cos[l] = (float)cos(azimuth), beam_sin[l] = (float)sin(azimuth);
    }
}

STAGE float least(float a, float b) { return a < b ? a : b; }
STAGE float most(float a, float b) { return a > b ? a : b; }
STAGE float clip(float a, float low, float high) { return least(most(a, low), high); }
STAGE float size(float a) { return a < 0.0f ? -a : a; }
STAGE float root(float a) { return __builtin_sqrtf(a); }
STAGE float fraction(float a) { return a - __builtin_floorf(a); }

/* ---- the drone ---- */

/* 1 - exp(-ratio), the formula of navrl/envs/navigation/sim/drone.py. */
STAGE float closed(float ratio)
{
    float x = least(ratio, 100.0f) * 0.125f;
    float growth = x * (1.0f + x * (1.0f / 2 + x * (1.0f / 6 + x * (1.0f / 24 + x * (1.0f / 120)))));
    growth = growth * (2.0f + growth);
    growth = growth * (2.0f + growth);
    growth = growth * (2.0f + growth);
    return growth / (1.0f + growth);
}

STAGE void fly(Block *restrict b, State in, const float *command, State out, long n, long k)
{
    const float dt = DECISION_S / STEPS;
    LANES {
        long e = k + j;
        float x = in.position[e], y = in.position[n + e], z = in.position[2 * n + e];
        float vx = in.velocity[e], vy = in.velocity[n + e], vz = in.velocity[2 * n + e];
        float ax = in.acceleration[e], ay = in.acceleration[n + e], az = in.acceleration[2 * n + e];
        float gain = GAIN_PER_S * in.gain[e], part = closed(dt / (LAG_S * in.lag[e]));
        for (int step = 0; step < STEPS; step++) {
            float wx = gain * (command[e] - vx), wy = gain * (command[n + e] - vy);
            float wz = clip(gain * (command[2 * n + e] - vz), -VERTICAL_MPS2, VERTICAL_MPS2);
            float shorter = HORIZONTAL_MPS2 / most(root(wx * wx + wy * wy), HORIZONTAL_MPS2);
            ax += part * (wx * shorter - ax), ay += part * (wy * shorter - ay), az += part * (wz - az);
            vx += dt * (ax + in.wind[e]), vy += dt * (ay + in.wind[n + e]);
            vz += dt * (az + in.wind[2 * n + e]);
            x += dt * vx, y += dt * vy, z += dt * vz;
        }
        float dx = x - in.position[e], dy = y - in.position[n + e], dz = z - in.position[2 * n + e];
        b->way[j] = root(dx * dx + dy * dy + dz * dz);
        b->way_x[j] = dx, b->way_y[j] = dy, b->way_z[j] = dz;
        dx = vx - in.velocity[e], dy = vy - in.velocity[n + e], dz = vz - in.velocity[2 * n + e];
        b->jolt[j] = root(dx * dx + dy * dy + dz * dz);
        b->x[j] = x, b->y[j] = y, b->z[j] = z, b->vx[j] = vx, b->vy[j] = vy, b->vz[j] = vz;
        out.position[e] = x, out.position[n + e] = y, out.position[2 * n + e] = z;
        out.velocity[e] = vx, out.velocity[n + e] = vy, out.velocity[2 * n + e] = vz;
        out.acceleration[e] = ax, out.acceleration[n + e] = ay, out.acceleration[2 * n + e] = az;
        out.decision[e] = in.decision[e] + 1.0f;
    }
}

/* Towards the goal from the start; with CURRENT from here, unless the goal is straight above or below. */
STAGE void head(Block *restrict b, State in, long n, long k)
{
    LANES {
        long e = k + j;
        float x = in.goal[e] - in.start[e], y = in.goal[n + e] - in.start[n + e];
        float length = root(x * x + y * y), per = 1.0f / most(length, LEAST_M);
        float cos = length > LEAST_M ? x * per : 1.0f, sin = length > LEAST_M ? y * per : 0.0f;
        x = in.goal[e] - b->x[j], y = in.goal[n + e] - b->y[j];
        length = root(x * x + y * y), per = 1.0f / most(length, LEAST_M);
        b->cos[j] = CURRENT && length > LEAST_M ? x * per : cos;
        b->sin[j] = CURRENT && length > LEAST_M ? y * per : sin;
    }
}

/* ---- moving obstacles ---- */

STAGE uint64_t mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

/* What the obstacles of an env share in this step. */
STAGE void roll(Block *restrict b, State in, long k)
{
    LANES {
        uint64_t step = (uint64_t)(int64_t)in.decision[k + j];
        uint64_t key = mix(((uint64_t)in.key[k + j] ^ mix(step)) ^ MOVING);
        for (int i = 0; i < DRAWS; i++)
            b->draw[i][j] = (float)(int32_t)(mix(key ^ (uint64_t)i) >> 40) * (1.0f / (1 << 24));
    }
}

static const float spread[DRAWS] = {
    0.8812714616335696f, 0.7766393890897682f, 0.6844301295853426f, 0.6031687406857282f, 0.5315553977157292f};

/* The modes take turns by rank, the order in which obstacles come into being. */
static int mode_of(int d)
{
    int kind = d / (COUNT / KINDS), member = d % (COUNT / KINDS);
    float rank = (float)(member * KINDS + (kind + 2 * member) % KINDS);
    float place = fraction(rank * 0.41421356237309515f) * (STOP_SHARE + BOUNCE_SHARE + CROSS_SHARE + WAY_SHARE);
    if (place < STOP_SHARE) return STOP_AND_GO;
    if (place < STOP_SHARE + BOUNCE_SHARE) return BOUNCING;
    return place < STOP_SHARE + BOUNCE_SHARE + CROSS_SHARE ? CROSSING : WAYPOINT;
}

STAGE float level(int d, float z) { return d < COLUMNS_FROM ? clip(z, 0.0f, HEIGHT_M) : COLUMN_Z_M; }

/* A new goal for obstacle d of env k + j, and the velocity to it; rare, so one at a time. */
static void turn(const Block *b, State in, State out, long n, long k, int d, int mode, int j)
{
    long p = d * n + k + j;
    float draw[DRAWS], x = out.place.x[p], y = out.place.y[p], z = out.place.z[p];
    for (int i = 0; i < DRAWS; i++) draw[i] = fraction((float)d * spread[i] + b->draw[i][j]);
    float home_x = in.home.x[p], home_y = in.home.y[p], pace = SLOW_MPS + (FAST_MPS - SLOW_MPS) * draw[3];
    float goal_x = clip(home_x + (2.0f * draw[0] - 1.0f) * REACH_X_M, -HALF_M, HALF_M);
    float goal_y = clip(home_y + (2.0f * draw[1] - 1.0f) * REACH_Y_M, -HALF_M, HALF_M);
    float goal_z = level(d, in.home.z[p] + (2.0f * draw[2] - 1.0f) * REACH_Z_M);
    if (mode == CROSSING) {
        float dx = b->x[j] - x, dy = b->y[j] - y, time = least(root(dx * dx + dy * dy) / pace, LOOK_AHEAD_S);
        float meet_x = clip(b->x[j] + b->vx[j] * time, -HALF_M, HALF_M);
        float meet_y = clip(b->y[j] + b->vy[j] * time, -HALF_M, HALF_M);
        if (size(meet_x - home_x) <= REACH_X_M && size(meet_y - home_y) <= REACH_Y_M)
            goal_x = meet_x, goal_y = meet_y, goal_z = level(d, b->z[j] + b->vz[j] * time);
    }
    float dx = goal_x - x, dy = goal_y - y, dz = goal_z - z;
    if (dx * dx + dy * dy + dz * dz < LEAST_M * LEAST_M) dx = LEAST_M;
    pace /= root(dx * dx + dy * dy + dz * dz);
    out.aim.x[p] = goal_x, out.aim.y[p] = goal_y, out.aim.z[p] = goal_z;
    out.speed.x[p] = dx * pace, out.speed.y[p] = dy * pace, out.speed.z[p] = dz * pace;
}

/* Straight on along one axis, mirrored at the faces of the box. */
STAGE float mirror(float flown, float low, float high, int there, float *speed)
{
    int above = there & (flown > high), below = there & (flown < low);
    float fast = size(*speed);
    *speed = above ? -fast : below ? fast : *speed;
    return above ? 2.0f * high - flown : below ? 2.0f * low - flown : flown;
}

/* Whether the drone meets obstacle d between two places (dx, dy, dz), from the drone, (wx, wy, wz) apart. */
STAGE int meets(int d, float dx, float dy, float dz, float wx, float wy, float wz)
{
    float half = 0.5f + BODY_M, reach = (float)(d * KINDS / COUNT % WIDTHS + 1) * 0.125f + BODY_M;
    float per = 1.0f / (size(wz) < LEAST_M ? LEAST_M : wz), first = 0.0f, last = 1.0f;
    if (d < COLUMNS_FROM) {
        first = most(dz * per - half * size(per), 0.0f);
        last = least(dz * per + half * size(per), 1.0f);
    }
    float back = (dx * wx + dy * wy) / most(wx * wx + wy * wy, LEAST_M * LEAST_M);
    back = least(most(back, first), last);
    dx -= back * wx, dy -= back * wy;
    return (first <= last) & (dx * dx + dy * dy <= reach * reach);
}

/* Obstacle d of every env: where it flies, what it does then, and a place among the nearest. */
STAGE int drift(Block *restrict b, State in, State out, long n, long k, int d, int stops)
{
    int tag_bits = 32 - __builtin_clz(COUNT - 1), any = 0;
    float own = (float)d * spread[DRAWS - 1];
    _Pragma("omp simd reduction(|:any)") for (int j = 0; j < BLOCK; j++) {
        long p = d * n + k + j;
        float vx = in.speed.x[p], vy = in.speed.y[p], vz = in.speed.z[p];
        int there = in.place.x[p] < 0.5f * FAR_M;
        float x = mirror(in.place.x[p] + vx * DECISION_S, -HALF_M, HALF_M, there, &vx);
        float y = mirror(in.place.y[p] + vy * DECISION_S, -HALF_M, HALF_M, there, &vy);
        float z = mirror(in.place.z[p] + vz * DECISION_S, 0.0f, HEIGHT_M, there, &vz);
        float gx = in.aim.x[p], gy = in.aim.y[p], gz = in.aim.z[p];
        out.place.x[p] = x, out.place.y[p] = y, out.place.z[p] = z;
        out.speed.x[p] = vx, out.speed.y[p] = vy, out.speed.z[p] = vz;
        out.aim.x[p] = gx, out.aim.y[p] = gy, out.aim.z[p] = gz;
        gx -= x, gy -= y, gz -= z;
        int arrived = there & (gx * gx + gy * gy + gz * gz < ARRIVAL_M * ARRIVAL_M);
        int deed = arrived ? TURN : GO_ON;
        if (stops) {
            int still = vx * vx + vy * vy + vz * vz == 0.0f;
            int rises = there & still & (fraction(own + b->draw[DRAWS - 1][j]) < REST_CHANCE);
            deed = rises ? TURN : arrived & !still ? HALT : GO_ON;
        }
        b->deed[j] = deed, any |= deed;
        float dx = x - b->x[j], dy = y - b->y[j];
        if (EXACT)
            b->hit_moving[j] |= meets(
                d, dx, dy, z - b->z[j], x - in.place.x[p] - b->way_x[j], y - in.place.y[p] - b->way_y[j],
                z - in.place.z[p] - b->way_z[j]);
        union { float value; int32_t bits; } square = {dx * dx + dy * dy};
        int32_t order = square.bits >> tag_bits << tag_bits | d; /* ordered as the distance, and says whose */
        order = square.value <= NEAR_RANGE_M * NEAR_RANGE_M ? order : NOBODY;
        for (int m = 0; m < NEAR; m++) {
            int32_t other = b->order[m][j], nearer = order < other;
            b->order[m][j] = nearer ? order : other, order = nearer ? other : order;
        }
    }
    return any;
}

STAGE void move(Block *restrict b, const int *modes, State in, State out, long n, long k)
{
    for (int m = 0; m < NEAR; m++) LANES b->order[m][j] = NOBODY;
    LANES b->hit_moving[j] = 0;
    for (int d = 0; d < COUNT; d++) {
        int mode = modes[d];
        int any = mode == STOP_AND_GO ? drift(b, in, out, n, k, d, 1) : drift(b, in, out, n, k, d, 0);
        if (!any || mode == BOUNCING) continue;
        for (int j = 0; j < BLOCK; j++) {
            long p = d * n + k + j;
            if (b->deed[j] == TURN) turn(b, in, out, n, k, d, mode, j);
            if (b->deed[j] == HALT) out.speed.x[p] = out.speed.y[p] = out.speed.z[p] = 0.0f;
        }
    }
}

/* The nearest moving obstacles, how far their surfaces are, and whether the drone is in one at the end. */
STAGE void tell(Block *restrict b, State out, Near near, long n, long k)
{
    int tag_bits = 32 - __builtin_clz(COUNT - 1);
    LANES b->moving_gap[j] = FAR_M;
    for (int m = 0; m < NEAR; m++) LANES {
        int there = b->order[m][j] != NOBODY, d = there ? b->order[m][j] & ((1 << tag_bits) - 1) : 0;
        long p = d * n + k + j, row = m * n + k + j, rows = NEAR * n;
        int column = there & (d >= COLUMNS_FROM);
        float x = out.place.x[p] - b->x[j], y = out.place.y[p] - b->y[j], z = out.place.z[p] - b->z[j];
        x = there ? x : 0.0f, y = there ? y : 0.0f, z = there & !column ? z : 0.0f;
        float radius = there ? (float)(d * KINDS / COUNT % WIDTHS + 1) * 0.125f : 0.0f;
        float half_height = column ? 2.5f : there ? 0.5f : 0.0f, square = x * x + y * y;
        near.offset[row] = x, near.offset[rows + row] = y, near.offset[2 * rows + row] = z;
        near.velocity[row] = there ? out.speed.x[p] : 0.0f;
        near.velocity[rows + row] = there ? out.speed.y[p] : 0.0f;
        near.velocity[2 * rows + row] = there ? out.speed.z[p] : 0.0f;
        near.radius[row] = radius, near.half_height[row] = half_height;
        near.upright[row] = (uint8_t)column, near.present[row] = (uint8_t)there;
        float beside = most(root(square) - radius, 0.0f), above = most(size(z) - half_height, 0.0f);
        float gap = root(beside * beside + above * above), reach = radius + BODY_M;
        b->moving_gap[j] = there ? least(b->moving_gap[j], gap) : b->moving_gap[j];
        if (!EXACT) b->hit_moving[j] |= there & (square <= reach * reach) & (size(z) <= half_height + BODY_M);
    }
}

/* ---- what stands ---- */

/* The obstacles that the drone's cell lists, as seen from the drone. */
typedef struct {
    float x[SLOTS + ROUNDS], y[SLOTS + ROUNDS];           /* in the heading's frame */
    float along[SLOTS + 1], across[SLOTS + 1];            /* of boxes: in the frame of the box */
    float half_x[SLOTS + 1], half_y[SLOTS + 1], cos[SLOTS + 1], sin[SLOTS + 1];
    float radius[ROUNDS + 1];
    float low[SLOTS + ROUNDS], high[SLOTS + ROUNDS];
    float gap[SLOTS + ROUNDS]; /* squared, from where the drone is */
    float first[RINGS][SLOTS + ROUNDS], last[RINGS][SLOTS + ROUNDS]; /* see at_height */
    int32_t window[SLOTS + ROUNDS]; /* the first beam to cut it with, or -1: all */
    int32_t seen[SLOTS + ROUNDS];
} Sight;

/* Between which horizontal distances every ring is between bottom and top; whether any can be in reach. */
STAGE int at_height(Sight *restrict s, int i)
{
    float low = s->low[i], high = s->high[i];
    int any = 0;
    for (int r = 0; r < RINGS; r++) {
        float first = slope[r] == 0.0f ? 0.0f : (slope[r] > 0.0f ? low : high) * (1.0f / slope[r]);
        float last = slope[r] == 0.0f ? ((low <= 0.0f) & (high >= 0.0f) ? NO_HIT_M : -1.0f)
                                      : (slope[r] > 0.0f ? high : low) * (1.0f / slope[r]);
        s->first[r][i] = first = most(first, 0.0f), s->last[r][i] = last;
        any |= (first <= last) & (first * slant[r] < RANGE_M);
    }
    return any;
}

/* The beams that can meet what is within radius of slot i: a window about the beam that points there. */
STAGE int aim(const Sight *s, int i, float square_radius)
{
    float x = s->x[i], y = s->y[i], u = size(x), v = size(y);
    float t = least(u, v) / most(most(u, v), LEAST_M), tt = t * t;
    float angle = t * (0.9998660f + tt * (-0.3302995f + tt * (0.1801410f + tt * (-0.0851330f + tt * 0.0208351f))));
    angle = v > u ? 1.57079633f - angle : angle;
    angle = x < 0.0f ? 3.14159265f - angle : angle;
    angle = y < 0.0f ? -angle : angle;
    int beam = (int)(angle * (BEAMS / 6.28318531f) + (BEAMS + 0.5f)) - WINDOW / 2;
    int wide = !SHORTCUTS | (square_radius > (x * x + y * y) * (WIDEST_SIN * WIDEST_SIN));
    return wide ? -1 : beam >= BEAMS ? beam - BEAMS : beam;
}

/* How far between two sides the middle is beyond either of them, with its sign. */
STAGE float beyond(float middle, float half) { return middle - clip(middle, -half, half); }

/* The squared distance to a box on the way here, in its frame; low and high are relative to its end. */
STAGE float pass_box(
    float along, float across, float low, float high, float half_x, float half_y, const float *way)
{
    float part = 0.0f, width = 0.5f, square = 1e30f;
    for (int i = 0; i <= HALVINGS; i++, width *= 0.5f) {
        float back = i < HALVINGS ? part + width : part;
        float x = beyond(along + back * way[0], half_x), y = beyond(across + back * way[1], half_y);
        float z = most(low + back * way[2], 0.0f) + least(high + back * way[2], 0.0f);
        part = x * way[0] + y * way[1] + z * way[2] < 0.0f ? back : part;
        square = x * x + y * y + z * z;
    }
    return square;
}

STAGE float pass_round(float east, float north, float low, float high, float radius, const float *way)
{
    float part = 0.0f, width = 0.5f, square = 1e30f;
    for (int i = 0; i <= HALVINGS; i++, width *= 0.5f) {
        float back = i < HALVINGS ? part + width : part;
        float x = east + back * way[0], y = north + back * way[1], axis = root(x * x + y * y);
        float outside = most(axis - radius, 0.0f), per = outside / most(axis, LEAST_M);
        float z = most(low + back * way[2], 0.0f) + least(high + back * way[2], 0.0f);
        part = (x * way[0] + y * way[1]) * per + z * way[2] < 0.0f ? back : part;
        square = outside * outside + z * z;
    }
    return square;
}

/* How many boxes the cell lists, seen from `at`: x, y, z, then cosine and sine of the heading, and the way here.
 * *nearest is the squared distance to the nearest of them. */
STAGE int find_boxes(Sight *restrict s, Worlds w, long world, const int32_t *list, const float *at, float *nearest)
{
    int count = 0;
    for (; count < BOX_SLOTS && (!SHORTCUTS | (list[count] < BOXES - 1)); count++) {
        long p = world * BOXES + list[count];
        s->x[count] = w.x[p], s->y[count] = w.y[p], s->cos[count] = w.cos[p], s->sin[count] = w.sin[p];
        s->half_x[count] = w.half_x[p], s->half_y[count] = w.half_y[p];
        s->low[count] = w.bottom[p], s->high[count] = w.top[p];
    }
    float found = 1e30f;
    _Pragma("omp simd reduction(min:found)") for (int i = 0; i < (count + 15) / 16 * 16; i++) {
        float east = s->x[i] - at[0], north = s->y[i] - at[1], cos = s->cos[i], sin = s->sin[i];
        float half_x = s->half_x[i], half_y = s->half_y[i];
        float along = east * cos + north * sin, across = north * cos - east * sin;
        s->x[i] = east * at[3] + north * at[4], s->y[i] = north * at[3] - east * at[4];
        s->along[i] = along, s->across[i] = across;
        s->cos[i] = cos * at[3] + sin * at[4], s->sin[i] = sin * at[3] - cos * at[4];
        s->low[i] -= at[2], s->high[i] -= at[2];
        float out_x = most(size(along) - half_x, 0.0f), out_y = most(size(across) - half_y, 0.0f);
        float square = out_x * out_x + out_y * out_y, above = most(most(s->low[i], -s->high[i]), 0.0f);
        s->gap[i] = square + above * above;
        found = i < count ? least(found, s->gap[i]) : found;
        s->seen[i] = ((square < RANGE_M * RANGE_M) & at_height(s, i)) | !SHORTCUTS;
        s->window[i] = aim(s, i, half_x * half_x + half_y * half_y);
    }
    *nearest = found;
    return count;
}

/* The same of cylinders, in the slots behind those of boxes. */
STAGE int find_rounds(Sight *restrict s, Worlds w, long world, const int32_t *list, const float *at, float *nearest)
{
    int count = 0;
    for (; count < CYLINDER_SLOTS && (!SHORTCUTS | (list[count] < CYLINDERS - 1)); count++) {
        long p = world * CYLINDERS + list[count];
        s->x[SLOTS + count] = w.round_x[p], s->y[SLOTS + count] = w.round_y[p];
        s->radius[count] = w.radius[p];
        s->low[SLOTS + count] = w.round_bottom[p], s->high[SLOTS + count] = w.round_top[p];
    }
    float found = *nearest;
    _Pragma("omp simd reduction(min:found)") for (int i = 0; i < (count + 15) / 16 * 16; i++) {
        int slot = SLOTS + i;
        float east = s->x[slot] - at[0], north = s->y[slot] - at[1], radius = s->radius[i];
        s->x[slot] = east * at[3] + north * at[4], s->y[slot] = north * at[3] - east * at[4];
        s->low[slot] -= at[2], s->high[slot] -= at[2];
        float outside = most(root(east * east + north * north) - radius, 0.0f);
        float above = most(most(s->low[slot], -s->high[slot]), 0.0f);
        s->gap[slot] = outside * outside + above * above;
        found = i < count ? least(found, s->gap[slot]) : found;
        s->seen[slot] = ((outside < RANGE_M) & at_height(s, slot)) | !SHORTCUTS;
        s->window[slot] = aim(s, slot, radius * radius);
    }
    *nearest = found;
    return count;
}

/* The squared distance to what is nearest on the way here, of the first boxes and rounds; nearest is that at its end.
 * What is farther from the end than that and the way is left out. */
STAGE float pass_near(const Sight *s, int boxes, int rounds, const float *at, float nearest)
{
    float x = at[5] * at[3] + at[6] * at[4], y = at[6] * at[3] - at[5] * at[4];
    float reach = root(nearest) + root(x * x + y * y + at[7] * at[7]), limit = SHORTCUTS ? reach * reach : 1e30f;
    for (int i = 0; i < boxes; i++) {
        if (s->gap[i] > limit) continue;
        float way[3] = {x * s->cos[i] + y * s->sin[i], y * s->cos[i] - x * s->sin[i], at[7]};
        float passed = pass_box(
            s->along[i], s->across[i], s->low[i], s->high[i], s->half_x[i], s->half_y[i], way);
        nearest = least(nearest, passed);
    }
    for (int i = 0, slot = SLOTS; i < rounds; i++, slot++) {
        if (s->gap[slot] > limit) continue;
        float way[3] = {x, y, at[7]};
        float passed = pass_round(s->x[slot], s->y[slot], s->low[slot], s->high[slot], s->radius[i], way);
        nearest = least(nearest, passed);
    }
    return nearest;
}

/* A window of rays, over a footprint from enter to leave, against bottom and top. */
STAGE void hit(float (*restrict near)[SPAN], const Sight *s, int i, int ray, float enter, float leave)
{
    for (int r = 0; r < RINGS; r++) {
        float from = most(enter, s->first[r][i]), to = least(leave, s->last[r][i]);
        near[r][ray] = least(near[r][ray], from <= to ? from : NO_HIT_M);
    }
}

STAGE void cut_box(float (*restrict near)[SPAN], const Sight *restrict s, int i, int window)
{
    float along = s->along[i], across = s->across[i], half_x = s->half_x[i], half_y = s->half_y[i];
    float cos = s->cos[i], sin = s->sin[i];
    SIMD for (int l = 0; l < WINDOW; l++) {
        float x = beam_cos[window + l], y = beam_sin[window + l];
        float per_x = 1.0f / (x * cos + y * sin + NOT_ZERO), per_y = 1.0f / (y * cos - x * sin + NOT_ZERO);
        float middle_x = along * per_x, middle_y = across * per_y;
        float through_x = half_x * size(per_x), through_y = half_y * size(per_y);
        float enter = most(middle_x - through_x, middle_y - through_y);
        hit(near, s, i, window + l, enter, least(middle_x + through_x, middle_y + through_y));
    }
}

STAGE void cut_round(float (*restrict near)[SPAN], const Sight *restrict s, int i, int window)
{
    float east = s->x[i], north = s->y[i], square = s->radius[i - SLOTS] * s->radius[i - SLOTS];
    SIMD for (int l = 0; l < WINDOW; l++) {
        float x = beam_cos[window + l], y = beam_sin[window + l];
        float middle = east * x + north * y, aside = north * x - east * y;
        float rest = square - aside * aside, half = root(most(rest, 0.0f));
        hit(near, s, i, window + l, rest < 0.0f ? NO_HIT_M : middle - half, middle + half);
    }
}

/* Everything that any ray of one env meets, ring by ring; returns the squared distance to what stands. */
STAGE float look(Sight *restrict s, float *restrict ranges, Worlds w, long world, const float *at)
{
    float near[RINGS][SPAN], nearest = 1e30f;
    int column = (int)clip(__builtin_floorf((at[0] + GRID_HALF_M) * (1.0f / CELL_M)), 0.0f, SIDE - 1.0f);
    int row = (int)clip(__builtin_floorf((at[1] + GRID_HALF_M) * (1.0f / CELL_M)), 0.0f, SIDE - 1.0f);
    long cell = world * SIDE * SIDE + row * SIDE + column;
    int32_t chosen[SLOTS + ROUNDS], boxes = 0, all = 0;
    int count = find_boxes(s, w, world, w.box_cells + cell * BOX_SLOTS, at, &nearest), near_boxes = count;
    for (int i = 0; i < count; i++) chosen[boxes] = i, boxes += s->seen[i];
    count = find_rounds(s, w, world, w.round_cells + cell * CYLINDER_SLOTS, at, &nearest);
    if (EXACT) nearest = pass_near(s, near_boxes, count, at, nearest);
    all = boxes;
    for (int i = SLOTS; i < SLOTS + count; i++) chosen[all] = i, all += s->seen[i];
    for (int r = 0; r < RINGS; r++)
        for (int l = 0; l < SPAN; l++) near[r][l] = slope[r] < 0.0f ? at[2] * (-1.0f / slope[r]) : RANGE_M;
    for (int c = 0; c < all; c++) {
        int i = chosen[c], from = s->window[i], to = from + 1;
        if (from < 0) from = 0, to = BEAMS;
        for (int window = from; window < to; window += WINDOW)
            if (c < boxes) cut_box(near, s, i, window);
            else cut_round(near, s, i, window);
    }
    for (int r = 0; r < RINGS; r++) {
        for (int l = 0; l < WINDOW; l++) near[r][l] = least(near[r][l], near[r][BEAMS + l]);
        for (int l = 0; l < BEAMS; l++) ranges[r * BEAMS + l] = clip(near[r][l] * slant[r], 0.0f, RANGE_M);
    }
    return nearest;
}

/* Every element of the first half, then one of the second: four times, and 16 rows are columns. */
STAGE void shuffle(float *restrict to, const float *restrict from)
{
    SIMD for (int i = 0; i < PACK * RAYS / 2; i++)
        to[2 * i] = from[i], to[2 * i + 1] = from[i + PACK * RAYS / 2];
}

STAGE void sense(Block *restrict b, Sight *restrict s, State in, Worlds w, State out, long n, long k)
{
    float a[PACK * RAYS], c[PACK * RAYS];
    for (int pack = 0; pack < BLOCK; pack += PACK) {
        for (int j = pack; j < pack + PACK; j++) {
            float at[8] = {b->x[j],   b->y[j],     b->z[j],     b->cos[j],
                           b->sin[j], b->way_x[j], b->way_y[j], b->way_z[j]};
            float nearest = look(s, a + (j - pack) * RAYS, w, in.world[k + j], at);
            b->gap[j] = EXACT ? least(root(nearest), REACH_M) : RANGE_M;
        }
        shuffle(c, a), shuffle(a, c), shuffle(c, a), shuffle(a, c);
        for (int r = 0; r < RINGS; r++)
            for (int beam = 0; beam < BEAMS; beam++) {
                const float *from = a + (r * BEAMS + beam) * PACK;
                float *to = out.scan + (beam * RINGS + r) * n + k + pack;
                for (int j = 0; j < PACK; j++) {
                    to[j] = from[j];
                    if (!EXACT) b->gap[pack + j] = least(b->gap[pack + j], from[j]);
                }
            }
    }
}

/* ---- how it stands ---- */

STAGE void conclude(Block *restrict b, State in, State out, long n, long k)
{
    LANES {
        long e = k + j;
        float x = in.goal[e] - b->x[j], y = in.goal[n + e] - b->y[j], z = in.goal[2 * n + e] - b->z[j];
        int had = in.reached[e], at_goal = x * x + y * y + z * z < GOAL_RADIUS_M * GOAL_RADIUS_M;
        int hit = b->gap[j] < BODY_M, struck = b->hit_moving[j];
        int strayed = (b->z[j] < FLOOR_M) | (b->z[j] > CEILING_M);
        strayed |= (size(b->x[j]) > SIDE_LIMIT_M) | (size(b->y[j]) > SIDE_LIMIT_M);
        out.reached[e] = (uint8_t)(had | (at_goal & !(hit | struck | strayed)));
        out.hit_static[e] = (uint8_t)hit, out.hit_moving[e] = (uint8_t)(struck & !hit);
        out.outside[e] = (uint8_t)(strayed & !hit & !struck), out.at_goal[e] = (uint8_t)at_goal;
        float flying = had ? 0.0f : 1.0f;
        out.static_gap[e] = b->gap[j];
        out.time[e] = in.time[e] + DECISION_S * flying, out.path[e] = in.path[e] + b->way[j] * flying;
        out.clearance[e] = least(in.clearance[e], least(b->gap[j], b->moving_gap[j]));
        out.jolt[e] = in.jolt[e] + b->jolt[j];
    }
}

/* n is a multiple of BLOCK; command (3, n) is a velocity in the world's frame. */
void advance(const State *in, const Worlds *worlds, const float *command, const State *out, const Near *near, long n)
{
    Block b;
    Sight sight = {0}; /* whole vectors of slots are worked out, also those that nothing is in */
    int modes[COUNT];
    for (int d = 0; d < COUNT; d++) modes[d] = mode_of(d);
    for (long k = 0; k < n; k += BLOCK) {
        fly(&b, *in, command, *out, n, k);
        head(&b, *in, n, k);
        roll(&b, *in, k);
        move(&b, modes, *in, *out, n, k);
        tell(&b, *out, *near, n, k);
        sense(&b, &sight, *in, *worlds, *out, n, k);
        conclude(&b, *in, *out, n, k);
    }
}
