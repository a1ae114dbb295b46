// One step of Alice and Bob, and all observations after it, written by hand: the yardstick of
// navrl/envs/alice_and_bob/sim.py. Every array has the env axis last; AGENTS, SIZE are macros.

#include <stdint.h>

enum { SIDE = SIZE + 2, CELLS = SIDE * SIDE, FREE = 0, WALL = 1, AGENT = 2, BUTTON = AGENT + AGENTS, DIAMOND = BUTTON + 2 };

// Button and diamond of a pair are in opposite corners.
static const int button_row[2] = {1, 1}, button_column[2] = {SIZE, 1};
static const int diamond_row[2] = {SIZE, SIZE}, diamond_column[2] = {1, SIZE};

typedef struct {
    int32_t *row, *column;  // (AGENTS, N)
    uint8_t *collected;     // (2, N)
    int32_t *step;          // (N,)
} State;

static void move(const State *before, const int32_t *action, const State *after, uint8_t *gained, long n) {
    for (long i = 0; i < AGENTS * n; i++) {
        int row = before->row[i] + (action[i] == 3) - (action[i] == 2);
        int column = before->column[i] + (action[i] == 0) - (action[i] == 1);
        row = row < 1 ? 1 : row > SIZE ? SIZE : row;
        column = column < 1 ? 1 : column > SIZE ? SIZE : column;
        after->row[i] = row, after->column[i] = column;
    }
    for (int d = 0; d < 2; d++)
        for (long e = 0; e < n; e++) {
            int pressed = 0, reached = 0;
            for (int a = 0; a < AGENTS; a++) {
                int row = after->row[a * n + e], column = after->column[a * n + e];
                pressed |= (row == button_row[d]) & (column == button_column[d]);
                reached |= (row == diamond_row[d]) & (column == diamond_column[d]);
            }
            uint8_t had = before->collected[d * n + e];
            gained[d * n + e] = pressed & reached & !had;
            after->collected[d * n + e] = had | (pressed & reached);
        }
    for (long e = 0; e < n; e++) after->step[e] = before->step[e] + 1;
}

// The nine cells around agent `me`, then where it is.
static void tell(const State *s, int me, float *view, long n) {
    const int32_t *my_row = s->row + me * n, *my_column = s->column + me * n;
    for (int cell = 0; cell < 9; cell++) {
        int down = cell / 3 - 1, right = cell % 3 - 1;
        for (long e = 0; e < n; e++) {
            int row = my_row[e] + down, column = my_column[e] + right;
            int code = (row >= 1) & (row <= SIZE) & (column >= 1) & (column <= SIZE) ? FREE : WALL;
            for (int d = 0; d < 2; d++) code = (row == button_row[d]) & (column == button_column[d]) ? BUTTON + d : code;
            for (int d = 0; d < 2; d++) {
                int there = (row == diamond_row[d]) & (column == diamond_column[d]) & !s->collected[d * n + e];
                code = there ? DIAMOND + d : code;
            }
            for (int a = 0; a < AGENTS; a++)
                code = (row == s->row[a * n + e]) & (column == s->column[a * n + e]) ? AGENT + a : code;
            view[cell * n + e] = code;
        }
    }
    for (long e = 0; e < n; e++) view[9 * n + e] = my_row[e], view[10 * n + e] = my_column[e];
}

// Every cell: most of them never change, so agents are written over what stands there.
static void tell_all(const State *s, float *all, long n) {
    for (int cell = 0; cell < CELLS; cell++) {
        int row = cell / SIDE, column = cell % SIDE;
        float code = row >= 1 && row <= SIZE && column >= 1 && column <= SIZE ? FREE : WALL;
        for (int d = 0; d < 2; d++)
            if (row == button_row[d] && column == button_column[d]) code = BUTTON + d;
        for (long e = 0; e < n; e++) all[cell * n + e] = code;
    }
    for (int d = 0; d < 2; d++) {
        float *cell = all + (diamond_row[d] * SIDE + diamond_column[d]) * n;
        for (long e = 0; e < n; e++) cell[e] = s->collected[d * n + e] ? cell[e] : DIAMOND + d;
    }
    for (int a = 0; a < AGENTS; a++)
        for (long e = 0; e < n; e++) all[(s->row[a * n + e] * SIDE + s->column[a * n + e]) * n + e] = AGENT + a;
}

void step(const State *before, const int32_t *action, const State *after, uint8_t *gained, float *views, float *all,
          long n) {
    move(before, action, after, gained, n);
    for (int me = 0; me < AGENTS; me++) tell(after, me, views + me * 11 * n, n);
    tell_all(after, all, n);
}
