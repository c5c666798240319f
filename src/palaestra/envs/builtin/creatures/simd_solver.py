"""Rounds of impulses of several creatures at once, in C++: on a CPU one vector holds the same number of 16 areas, on a
GPU each number is alone.

Both kinds of processors run the same lines: `Lanes` is a vector of 16 numbers, or a single number. The numbers of a
vector do not interact, so an area's result does not depend on its neighbors. On a CPU the rows of `solver` and
`touches` are first transposed into vectors (`fill_lanes`); vectors, and a struct that is not copied, make a round ten
times as fast as Warp's code.
"""

from __future__ import annotations

import ctypes

import warp as wp

from palaestra.envs.builtin.creatures.world import ContactRow, Grip, JointRows, World

TOGETHER = 16  # areas in a vector
MOST_PARTS = 16  # of a creature
JOINT_NUMBERS, CONTACT_NUMBERS, GRIP_NUMBERS = (
    ctypes.sizeof(struct.ctype) // 4 for struct in (JointRows, ContactRow, Grip)
)

_TYPES = """
#if defined(__CUDA_ARCH__)
    constexpr int WIDTH = 1;
    typedef float Lanes;
    typedef float Stored;
#else
    constexpr int WIDTH = 16;
    typedef float Lanes __attribute__((ext_vector_type(16)));
    typedef Lanes Stored __attribute__((aligned(4)));
#endif
    const auto& joints = world.scratch.joint;
    const auto& contacts = world.scratch.contact;
    const auto& inertia = world.scratch.inertia;
    const auto& grips = world.scratch.grip;
    const auto& slots = world.scratch.slots;
    auto* joint_row = (decltype(joints.data))((char*)joints.data + first_area * joints.strides[0]);
    auto* contact_row = (decltype(contacts.data))((char*)contacts.data + first_area * contacts.strides[0]);
    auto* inertia_row = (decltype(inertia.data))((char*)inertia.data + first_area * inertia.strides[0]);
    auto* grip_row = (decltype(grips.data))((char*)grips.data + first_area * grips.strides[0]);
    constexpr int JOINT_SIZE = sizeof(*joint_row) / 4;
    constexpr int CONTACT_SIZE = sizeof(*contact_row) / 4;
    constexpr int GRIP_SIZE = sizeof(*grip_row) / 4;
    const int num_joints = joints.shape[1];
    const int num_parts = inertia.shape[1];
#if defined(__CUDA_ARCH__)
    float* joint_lanes = (float*)joint_row;
    float* inertia_lanes = (float*)inertia_row;
    float* grip_lanes = (float*)grip_row;
    float* contact_lanes = (float*)contact_row;
#else
    Stored* joint_lanes = (Stored*)world.scratch.lanes.data;
    Stored* inertia_lanes = joint_lanes + num_joints * JOINT_SIZE;
    Stored* grip_lanes = inertia_lanes + num_parts * 9;
    Stored* contact_lanes = grip_lanes + num_parts * GRIP_SIZE;
#endif
"""


@wp.func_native(
    _TYPES
    + """
#if defined(__CUDA_ARCH__)
    const int count = world.scratch.contacts.data[first_area];
    for (int k = 0; k < count; ++k) {
        slots.data[2 * (first_area * contacts.shape[1] + k)] = contact_row[k].first;
        slots.data[2 * (first_area * contacts.shape[1] + k) + 1] = contact_row[k].second;
    }
    return count;
#else
    const int last = areas - 1;  // lanes beyond it repeat the last area
    auto transpose = [&](const void* rows, size_t stride, int count, Stored* to) {
        const char* from[WIDTH];
        for (int n = 0; n < WIDTH; ++n) from[n] = (const char*)rows + (n < last ? n : last) * stride;
        for (int k = 0; k < count; ++k) {
            Lanes all;
            for (int n = 0; n < WIDTH; ++n) all[n] = ((const float*)from[n])[k];
            to[k] = all;
        }
    };
    transpose(joint_row, joints.strides[0], num_joints * JOINT_SIZE, joint_lanes);
    transpose(inertia_row, inertia.strides[0], num_parts * 9, inertia_lanes);
    transpose(grip_row, grips.strides[0], num_parts * GRIP_SIZE, grip_lanes);
    // each slot holds a contact of the same two parts in some areas, and nothing in the others; an area's contacts keep
    // their order
    int next[WIDTH];
    for (int n = 0; n < WIDTH; ++n) next[n] = 0;
    int count = 0;
    while (true) {
        int key = 1 << 30;
        int first = 0;
        int second = 0;
        for (int n = 0; n < areas; ++n) {
            if (next[n] == world.scratch.contacts.data[first_area + n]) continue;
            const auto& row = ((decltype(contact_row))((char*)contact_row + n * contacts.strides[0]))[next[n]];
            const int own = row.second < 0 ? row.first : num_parts * (row.first + 1) + row.second;
            if (own >= key) continue;
            key = own;
            first = row.first;
            second = row.second;
        }
        if (key == 1 << 30) break;
        float* to = (float*)(contact_lanes + count * CONTACT_SIZE);
        for (int k = 0; k < CONTACT_SIZE * WIDTH; ++k) to[k] = 0.0f;
        for (int n = 0; n < areas; ++n) {
            if (next[n] == world.scratch.contacts.data[first_area + n]) continue;
            const auto& row = ((decltype(contact_row))((char*)contact_row + n * contacts.strides[0]))[next[n]];
            if (row.first != first || row.second != second) continue;
            next[n] += 1;
            for (int k = 0; k < CONTACT_SIZE; ++k) to[k * WIDTH + n] = ((const float*)&row)[k];
        }
        slots.data[2 * count] = first;
        slots.data[2 * count + 1] = second;
        count += 1;
    }
    return count;
#endif
"""
)
def fill_lanes(world: World, first_area: int, areas: int) -> int:
    """Copies the rows of some areas into vectors; returns the number of slots of contacts."""


@wp.func_native(
    _TYPES
    + """
    struct Vector {
        Lanes x, y, z;
        CUDA_CALLABLE Vector operator+(const Vector& o) const { return {x + o.x, y + o.y, z + o.z}; }
        CUDA_CALLABLE Vector operator-(const Vector& o) const { return {x - o.x, y - o.y, z - o.z}; }
        CUDA_CALLABLE Vector operator*(Lanes s) const { return {x * s, y * s, z * s}; }
        CUDA_CALLABLE Lanes dot(const Vector& o) const { return x * o.x + y * o.y + z * o.z; }
        CUDA_CALLABLE Vector cross(const Vector& o) const {
            return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x}; }
    };
    auto at = [](const Stored* from) { return Vector{from[0], from[1], from[2]}; };
    auto column = [](const Stored* from) { return Vector{from[0], from[3], from[6]}; };
    auto times = [](const Stored* m, const Vector& v) {
        return Vector{
            m[0] * v.x + m[1] * v.y + m[2] * v.z, m[3] * v.x + m[4] * v.y + m[5] * v.z,
                m[6] * v.x + m[7] * v.y + m[8] * v.z
        };
    };
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define JOINT_PART(name) (row + ((const float*)&joint_row->name - (const float*)joint_row))
#define GRIP_PART(name) (row + ((const float*)&grip_row->name - (const float*)grip_row))
#define CONTACT_PART(name) (row + ((const float*)&contact_row->name - (const float*)contact_row))
    const Lanes zero = Lanes(0.0f);
    Vector v[16];
    Vector w[16];
    for (int part = 0; part < num_parts; ++part) {
#if defined(__CUDA_ARCH__)
        const auto& speed = *wp::address(world.velocity, first_area, part);
        const auto& turn = *wp::address(world.spin, first_area, part);
        v[part] = {speed[0], speed[1], speed[2]};
        w[part] = {turn[0], turn[1], turn[2]};
#else
        for (int n = 0; n < WIDTH; ++n) {
            const int area = first_area + (n < areas ? n : areas - 1);
            const auto& speed = *wp::address(world.velocity, area, part);
            const auto& turn = *wp::address(world.spin, area, part);
            v[part].x[n] = speed[0];
            v[part].y[n] = speed[1];
            v[part].z[n] = speed[2];
            w[part].x[n] = turn[0];
            w[part].y[n] = turn[1];
            w[part].z[n] = turn[2];
        }
#endif
    }
#if defined(__CUDA_ARCH__)
    const int* parts = slots.data + 2 * first_area * contacts.shape[1];
#else
    const int* parts = slots.data;
#endif
    // contacts of a part with ground and walls stand together, before those of two parts
    int from[16] = {0};
    int to[16] = {0};
    int both = 0;
    for (int k = 0; k < contact_slots; ++k) {
        if (parts[2 * k + 1] >= 0) continue;
        if (to[parts[2 * k]] == 0) from[parts[2 * k]] = k;
        to[parts[2 * k]] = k + 1;
        both = k + 1;
    }
    // `total` is what the contacts of a part press on the ground
    auto solve_contact = [&](int k, Lanes& total) {
        const int first = parts[2 * k];
        const int second = parts[2 * k + 1];
        Stored* row = contact_lanes + k * CONTACT_SIZE;
        const Vector normal = at(CONTACT_PART(normal));
        const Vector tangent = at(CONTACT_PART(tangent));
        const Vector other = normal.cross(tangent);
        const Vector arm1 = at(CONTACT_PART(first_arm));
        const Vector arm2 = at(CONTACT_PART(second_arm));
        Vector slip = v[first] + w[first].cross(arm1);
        if (second >= 0) slip = slip - (v[second] + w[second].cross(arm2));
        Lanes speed = CONTACT_PART(speed)[0];
        speed = speed > zero ? speed * biased : speed;
        Stored* given = CONTACT_PART(given);
        const Stored* mass = CONTACT_PART(mass);
        const Lanes push = MOST(given[0] + (speed - normal.dot(slip)) * mass[0], zero);
        const Lanes most = CONTACT_PART(friction)[0] * push;
        const Lanes along = LEAST(MOST(given[1] - tangent.dot(slip) * mass[1], -most), most);
        const Lanes across = LEAST(MOST(given[2] - other.dot(slip) * mass[2], -most), most);
        const Vector impulse = normal * (push - given[0]) + tangent * (along - given[1]) + other * (across - given[2]);
        total = total + push * CONTACT_PART(loads)[0];
        given[0] = push;
        given[1] = along;
        given[2] = across;
        v[first] = v[first] + impulse * Lanes(world.anatomy.inverse_mass.data[first]);
        w[first] = w[first] + times(inertia_lanes + first * 9, arm1.cross(impulse));
        if (second >= 0) {
            v[second] = v[second] - impulse * Lanes(world.anatomy.inverse_mass.data[second]);
            w[second] = w[second] - times(inertia_lanes + second * 9, arm2.cross(impulse));
        }
    };
    auto hold_ground = [&](int part, const Lanes& total) {
        Stored* row = grip_lanes + part * GRIP_SIZE;
        const Vector tangent = at(GRIP_PART(tangent));
        const Vector directions[2] = {tangent, Vector{tangent.z, zero, -tangent.x}};
        const Vector arms[2] = {at(GRIP_PART(arm)), at(GRIP_PART(other_arm))};
        const Lanes most = total * GRIP_PART(friction)[0];
        Lanes slipped = zero;
        for (int n = 0; n < 4; ++n) {
            const Vector& direction = directions[n % 2];
            const Vector& arm = arms[n / 2];
            const Lanes before = GRIP_PART(given)[n];
            const Lanes speed = direction.dot(v[part] + w[part].cross(arm)) - GRIP_PART(speed)[n] * biased;
            const Lanes wanted = before - speed * GRIP_PART(mass)[n];
            const Lanes given = LEAST(MOST(wanted, -most), most);
            slipped = given == wanted ? slipped : zero + 1.0f;
            GRIP_PART(given)[n] = given;
            const Vector impulse = direction * (given - before);
            v[part] = v[part] + impulse * Lanes(world.anatomy.inverse_mass.data[part]);
            w[part] = w[part] + times(inertia_lanes + part * 9, arm.cross(impulse));
        }
        GRIP_PART(slipped)[0] = slipped;
    };
    const int late = world.anatomy.friction_rounds;
    for (int round = 0; round < rounds; ++round) {
        for (int place = 0; place < world.anatomy.order.shape[0]; ++place) {
            const int k = world.anatomy.order.data[place];
            if (k < 0) {
                const int part = -1 - k;
                Lanes total = zero;
                for (int n = from[part]; n < to[part]; ++n) solve_contact(n, total);
                if (to[part] > from[part] && (biased == 0.0f || round >= rounds - late)) hold_ground(part, total);
                continue;
            }
            const auto& joint = world.anatomy.joint.data[k];
            Stored* row = joint_lanes + k * JOINT_SIZE;
            const float first_mass = world.anatomy.inverse_mass.data[joint.first];
            const float second_mass = world.anatomy.inverse_mass.data[joint.second];
            Vector spin1 = w[joint.first];
            Vector spin2 = w[joint.second];
            const Lanes most = JOINT_PART(most)[0];
            for (int n = 0; n < 3; ++n) {
                const Lanes before = JOINT_PART(given)[n];
                const Lanes off = JOINT_PART(drive_goal)[n]
                    - at(JOINT_PART(drive) + 3 * n).dot(spin2 - spin1) - before * softness;
                const Lanes wanted = before + off * JOINT_PART(drive_mass)[n];
                const Lanes given = LEAST(MOST(wanted, -most), most);
                JOINT_PART(given)[n] = given;
                spin1 = spin1 - column(JOINT_PART(first_drive) + n) * (given - before);
                spin2 = spin2 + column(JOINT_PART(second_drive) + n) * (given - before);
            }
            const Vector arm1 = at(JOINT_PART(first_arm));
            const Vector arm2 = at(JOINT_PART(second_arm));
            const Vector gap = v[joint.second] + spin2.cross(arm2) - v[joint.first] - spin1.cross(arm1);
            Vector impulse = times(JOINT_PART(point_mass), at(JOINT_PART(point_bias)) * Lanes(biased) - gap);
            spin1 = spin1 - times(inertia_lanes + joint.first * 9, arm1.cross(impulse));
            spin2 = spin2 + times(inertia_lanes + joint.second * 9, arm2.cross(impulse));
            for (int n = 2; n >= 0; --n) {
                const Lanes speed = at(JOINT_PART(axes) + 3 * n).dot(spin2 - spin1);
                const Lanes mass = JOINT_PART(mass)[n];
                Lanes turn;
                if (joint.low[n] == joint.high[n]) {
                    turn = (JOINT_PART(goal)[n] * biased - speed) * mass;
                } else {
                    Lanes low = JOINT_PART(low)[n];
                    Lanes high = JOINT_PART(high)[n];
                    low = low > zero ? low * biased : low;
                    high = high < zero ? high * biased : high;
                    const Lanes before = JOINT_PART(held)[n];
                    const Lanes wanted = before - speed * mass;
                    // the impulse that brings the speed within low and high, but no more than has been given before to
                    // keep it there
                    const Lanes held = MOST(wanted + low * mass, zero) + LEAST(wanted + high * mass, zero);
                    JOINT_PART(held)[n] = held;
                    turn = held - before;
                }
                spin1 = spin1 - column(JOINT_PART(first_turn) + n) * turn;
                spin2 = spin2 + column(JOINT_PART(second_turn) + n) * turn;
                impulse = impulse - column(JOINT_PART(push) + n) * turn;
            }
            w[joint.first] = spin1;
            w[joint.second] = spin2;
            v[joint.first] = v[joint.first] - impulse * Lanes(first_mass);
            v[joint.second] = v[joint.second] + impulse * Lanes(second_mass);
        }
        Lanes none = zero;
        for (int k = both; k < contact_slots; ++k) solve_contact(k, none);
    }
    for (int part = 0; part < num_parts; ++part) {
        if (biased == 0.0f && to[part] > from[part]) {
            Stored* row = grip_lanes + part * GRIP_SIZE;
#if defined(__CUDA_ARCH__)
            if (GRIP_PART(slipped)[0] > 0.0f) *wp::address(world.held, first_area, part) = 0;
#else
            for (int n = 0; n < areas; ++n)
                if (GRIP_PART(slipped)[0][n] > 0.0f) *wp::address(world.held, first_area + n, part) = 0;
#endif
        }
#if defined(__CUDA_ARCH__)
        *wp::address(world.velocity, first_area, part) = wp::vec3(v[part].x, v[part].y, v[part].z);
        *wp::address(world.spin, first_area, part) = wp::vec3(w[part].x, w[part].y, w[part].z);
#else
        for (int n = 0; n < areas; ++n) {
            *wp::address(world.velocity, first_area + n, part) = wp::vec3(v[part].x[n], v[part].y[n], v[part].z[n]);
            *wp::address(world.spin, first_area + n, part) = wp::vec3(w[part].x[n], w[part].y[n], w[part].z[n]);
        }
#endif
    }
#undef LEAST
#undef MOST
#undef JOINT_PART
#undef CONTACT_PART
#undef GRIP_PART
"""
)
def solve_rounds(
    world: World, first_area: int, areas: int, contact_slots: int, rounds: int, biased: float, softness: float
):
    """Applies all impulses of some areas, in rounds.

    `biased` is 1 to correct errors of position, else 0. `softness`: the drives' softness.
    """
