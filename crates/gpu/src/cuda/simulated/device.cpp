// A CUDA device made of one CPU thread: a program that allocates, copies and runs kernels as requested
// on its standard input, and ends with a message if a kernel makes an invalid access or a race.
//
// Kernels are shared libraries compiled from the CUDA C++ text that a card would get. Blocks run
// one after another; the threads of a block are fibers that run until they meet a barrier. While a
// kernel runs it may touch its operands and nothing else.
//
// Built in two ways. With AddressSanitizer, an access outside of the operands is caught. With
// SIMULATED_RACES the kernels are compiled with `-fsanitize=thread`, whose hooks are defined here:
// two accesses to one byte by two threads, one of them a write, with no barrier in between, are
// caught, whatever order the fibers ran in.
//
// Every request is answered with a code, and a message if the code is not 0. A fault in a kernel
// is answered too and then ends the program: on a card such an error is sticky.

// The kernels are watched, not this file, whose checks would take a third of the time.
#pragma clang attribute push(__attribute__((no_sanitize("address", "bounds"))), apply_to = function)

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#endif

namespace {

const unsigned WARP = 32;
const size_t STACK_BYTES = 512 << 10;

struct Dimensions {
    unsigned x, y, z;
    unsigned count() const { return x * y * z; }
};

[[noreturn]] void fault(const char *format, ...);

// ---- Fibers ---------------------------------------------------------------------------------

struct Fiber {
    void *stack_pointer;
    char *stack;
    Dimensions index; // in its block
    unsigned turn;    // which of its warp's two sets of values it uses
};

// What lanes exchange has two sets in turn, so that a lane can give its next values while others
// still read these: one meeting for each exchange instead of two.
struct WarpState {
    unsigned values[2][WARP];
    float matrices[2][512];
    // One bit for each lane: those that can run, and those that wait.
    unsigned ready, at_barrier, at_meeting;
    unsigned lanes;
    unsigned epoch; // of accesses: barriers passed since the last one of the block
};

std::vector<Fiber> fibers;
std::vector<WarpState> warps;
unsigned fiber_count, current, block_epoch, block_index, at_block_barrier, done;
void *scheduler_pointer;
#ifdef WITH_ASAN
const void *scheduler_stack;
size_t scheduler_stack_bytes;
#endif
void (*entry)(void **);
void **entry_arguments;
// Which fiber runs next among those that can: 0 the first, 1 the last, 2 one of the same warp, so
// that a warp that can pass its own barrier runs ahead of the others.
int order;

// Saves the registers that a call preserves on the old stack and restores those of the new one.
extern "C" void simulated_switch(void **from, void *to);
__asm__(".text\n"
        ".globl simulated_switch\n"
        ".type simulated_switch,@function\n"
        "simulated_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n");

} // namespace

extern "C" {
Dimensions threadIdx, blockIdx, blockDim, gridDim;
}

namespace {

unsigned warp_count() { return (fiber_count + WARP - 1) / WARP; }

// The fiber to run next; `fiber_count` if none can.
unsigned next_fiber() {
    unsigned count = warp_count();
    for (unsigned n = 0; n < count; n++) {
        unsigned warp = order == 1   ? count - 1 - n
                        : order == 2 ? (current / WARP + n) % count
                                     : n;
        if (unsigned ready = warps[warp].ready)
            return warp * WARP + (order == 1 ? 31 - __builtin_clz(ready) : __builtin_ctz(ready));
    }
    return fiber_count;
}

void resume(unsigned fiber) {
    current = fiber;
    threadIdx = fibers[fiber].index;
}

// Leaves a fiber, for the next one or, if all have ended, for the scheduler.
void leave(bool is_last) {
    unsigned from = current, to = next_fiber();
    if (to == from && !is_last)
        return;
    if (to == fiber_count && done < fiber_count)
        fault("the threads of a block wait for each other at different places");
    bool is_over = to == fiber_count;
    if (!is_over)
        resume(to);
#ifdef WITH_ASAN
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(is_last ? nullptr : &fake,
                                   is_over ? scheduler_stack : fibers[to].stack,
                                   is_over ? scheduler_stack_bytes : STACK_BYTES);
#endif
    simulated_switch(&fibers[from].stack_pointer,
                     is_over ? scheduler_pointer : fibers[to].stack_pointer);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// Lets all threads go if each of them is at the block's barrier.
void release_block() {
    if (!at_block_barrier || at_block_barrier + done < fiber_count)
        return;
    if (done)
        fault("%u of %u threads ended before a block's barrier", done, fiber_count);
    block_epoch++;
    at_block_barrier = 0;
    for (unsigned i = 0; i < warp_count(); i++)
        warps[i].ready = warps[i].lanes, warps[i].epoch = 0;
}

void run_fiber() {
#ifdef WITH_ASAN
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &stack, &bytes);
    if (!scheduler_stack) // the first fiber of all is entered from the scheduler
        scheduler_stack = stack, scheduler_stack_bytes = bytes;
#endif
    entry(entry_arguments);
    warps[current / WARP].ready &= ~(1u << current % WARP);
    done++;
    release_block();
    leave(true);
    abort(); // a finished fiber is never resumed
}

void prepare(Fiber &fiber) {
    if (!fiber.stack) {
        void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED)
            fault("no memory for the stack of a thread");
        fiber.stack = static_cast<char *>(stack);
    }
    // Six registers, the address to return to, and one word so that the stack is aligned as
    // after a call.
    void **top = reinterpret_cast<void **>(fiber.stack + STACK_BYTES) - 8;
    memset(top, 0, 8 * sizeof *top);
    top[6] = reinterpret_cast<void *>(&run_fiber);
    fiber.stack_pointer = top;
    fiber.turn = 0;
}

void wait_for_block() {
    warps[current / WARP].ready &= ~(1u << current % WARP);
    at_block_barrier++;
    release_block();
    leave(false);
}

// Waits until every lane of the warp waits for the same thing: a barrier, or to meet for an exchange,
// which orders no accesses, as CUDA promises none of shuffles and tiles.
void wait_for_warp(unsigned WarpState::*waiting) {
    WarpState &warp = warps[current / WARP];
    unsigned lane = 1u << current % WARP;
    warp.ready &= ~lane;
    warp.*waiting |= lane;
    if (warp.*waiting == warp.lanes) {
        warp.*waiting = 0;
        warp.ready = warp.lanes;
        warp.epoch += waiting == &WarpState::at_barrier;
    }
    leave(false);
}

// What a tensor core does; its accesses to registers are not checked. The lanes exchange their
// elements as floats.
template <typename T> void multiply(float *d, const T *a, const T *b, const float *c) {
    float *matrices = warps[current / WARP].matrices[fibers[current].turn ^= 1];
    float *left = matrices + current % WARP * 8, *right = left + 256;
    for (int i = 0; i < 8; i++) {
        left[i] = a[i];
        right[i] = b[i];
    }
    wait_for_warp(&WarpState::at_meeting);
    const float *row = matrices + current % WARP / 2 * 16, *column = matrices + 256 + current % 2 * 8;
    float sums[8];
    memcpy(sums, c, sizeof sums);
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < 8; i++)
            sums[i] += row[k] * column[k * 16 + i];
    memcpy(d, sums, sizeof sums);
}

} // namespace

void simulated_multiply(float *d, const __half *a, const __half *b, const float *c) {
    multiply(d, a, b, c);
}

void simulated_multiply(float *d, const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c) {
    multiply(d, a, b, c);
}

extern "C" {
void simulated_block_barrier() { wait_for_block(); }
void simulated_warp_barrier() { wait_for_warp(&WarpState::at_barrier); }
unsigned simulated_lane() { return current % WARP; }

unsigned simulated_exchange(unsigned value, unsigned mask) {
    WarpState &warp = warps[current / WARP];
    unsigned lane = current % WARP, other = lane ^ mask;
    if (other >= WARP || current - lane + other >= fiber_count)
        fault("a shuffle asks for lane %u, which is not there", other);
    unsigned *values = warp.values[fibers[current].turn ^= 1];
    values[lane] = value;
    wait_for_warp(&WarpState::at_meeting);
    return values[other];
}

[[noreturn]] void simulated_fault(const char *what) { fault("%s", what); }
}

namespace {

void run_block() {
    for (unsigned i = 0; i < fiber_count; i++)
        prepare(fibers[i]);
    for (unsigned i = 0; i < warp_count(); i++) {
        unsigned lanes = fiber_count - i * WARP < WARP ? fiber_count - i * WARP : WARP;
        WarpState &warp = warps[i];
        warp.ready = warp.lanes = lanes == WARP ? ~0u : (1u << lanes) - 1;
        warp.at_barrier = warp.at_meeting = warp.epoch = 0;
    }
    block_epoch = at_block_barrier = done = current = 0;
    resume(next_fiber());
#ifdef WITH_ASAN
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fibers[current].stack, STACK_BYTES);
#endif
    simulated_switch(&scheduler_pointer, fibers[current].stack_pointer);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// ---- Races ----------------------------------------------------------------------------------

struct Allocation {
    size_t bytes;
#ifdef SIMULATED_RACES
    struct Access *shadow;
#endif
};

std::map<char *, Allocation> allocations; // by address
char *shared_memory;
size_t shared_bytes;
const char *kernel_name = "";

#ifdef SIMULATED_RACES

// The accesses to one byte in this launch that a further one may collide with.
struct Access {
    uint32_t launch; // of device memory, the block of shared memory; 0: none yet
    uint32_t block;
    uint32_t epoch; // of the block
    uint16_t writer, writer_epoch; // thread + 1, and its warp's epoch
    uint16_t reader, reader_epoch;
    bool has_readers; // several threads that no barrier of a warp puts in order
    bool was_read, was_written; // by this block in this launch
    bool was_read_before;       // by an earlier block in this launch
};

std::vector<Access> shared_shadow;
uint32_t launch_number, shared_number; // of launches and of blocks, from 1

// `number` is the launch's for device memory and the block's for shared memory, which no other
// block sees.
void touch(Access &at, uint32_t number, bool is_write, const char *where, size_t offset) {
    unsigned thread = current + 1, warp_epoch = warps[current / WARP].epoch;
    auto race = [&](unsigned other, const char *first) {
        fault("`%s`: thread %u %s byte %zu of %s, which thread %u %s with no barrier between them "
              "(block %u)",
              kernel_name, current, is_write ? "writes" : "reads", offset, where, other - 1, first,
              block_index);
    };
    if (at.launch == number && at.block != block_index) {
        // Blocks have no order among them.
        bool was_read = at.was_read || at.was_read_before;
        if (at.was_written || (is_write && was_read))
            fault("`%s`: block %u %s byte %zu of %s, which block %u %s in the same launch",
                  kernel_name, block_index, is_write ? "writes" : "reads", offset, where, at.block,
                  at.was_written ? "wrote" : "read");
        at = Access();
        at.was_read_before = was_read;
    } else if (at.launch != number) {
        at = Access();
    } else if (at.epoch != block_epoch) {
        at.writer = at.reader = 0;
        at.has_readers = false;
    }
    at.launch = number;
    at.block = block_index;
    at.epoch = block_epoch;
    if (is_write && at.was_read_before)
        fault("`%s`: block %u writes byte %zu of %s, which an earlier block read in the same launch",
              kernel_name, block_index, offset, where);
    at.was_read |= !is_write;
    at.was_written |= is_write;
    auto is_ordered = [&](unsigned other, unsigned epoch) {
        return other == thread ||
               ((other - 1) / WARP == current / WARP && epoch != warp_epoch);
    };
    if (at.writer && !is_ordered(at.writer, at.writer_epoch))
        race(at.writer, "wrote");
    if (is_write) {
        if (at.has_readers || (at.reader && !is_ordered(at.reader, at.reader_epoch)))
            race(at.reader, "read");
        at.writer = thread;
        at.writer_epoch = warp_epoch;
        at.reader = 0;
    } else if (at.reader && !is_ordered(at.reader, at.reader_epoch)) {
        at.has_readers = true;
        at.reader = thread;
    } else {
        at.reader = thread;
        at.reader_epoch = warp_epoch;
    }
}

bool is_running;

void access(void *address, size_t bytes, bool is_write) {
    if (!is_running)
        return;
    char *from = static_cast<char *>(address), *stack = fibers[current].stack;
    if (from >= stack && from < stack + STACK_BYTES)
        return;
    if (from >= shared_memory && from < shared_memory + shared_bytes) {
        for (size_t i = 0; i < bytes; i++)
            touch(shared_shadow[from - shared_memory + i], shared_number, is_write, "shared memory",
                  from - shared_memory + i);
        return;
    }
    auto after = allocations.upper_bound(from);
    if (after == allocations.begin())
        return; // a stack, or a constant
    auto &[start, allocation] = *--after;
    if (size_t(from - start) >= allocation.bytes)
        return;
    for (size_t i = 0; i < bytes; i++)
        touch(allocation.shadow[from - start + i], launch_number, is_write, "device memory",
              from - start + i);
}

#endif

// ---- Requests -------------------------------------------------------------------------------

// Answers that were not sent yet: they go out together, before the program waits for a request.
std::string answers;

void send_answers() {
    for (const char *at = answers.data(), *end = at + answers.size(); at < end;) {
        ssize_t put = write(1, at, end - at);
        if (put <= 0)
            _exit(0);
        at += put;
    }
    answers.clear();
}

void read_all(void *to, size_t bytes) {
    static char buffer[1 << 16];
    static size_t start, end;
    for (char *at = static_cast<char *>(to); bytes;) {
        if (start == end) {
            send_answers();
            ssize_t got = read(0, buffer, sizeof buffer);
            if (got <= 0)
                _exit(0); // the test has ended
            start = 0, end = got;
        }
        size_t part = end - start < bytes ? end - start : bytes;
        memcpy(at, buffer + start, part);
        at += part, bytes -= part, start += part;
    }
}

void write_all(const void *from, size_t bytes) {
    answers.append(static_cast<const char *>(from), bytes);
}

template <typename T> T get() {
    T value;
    read_all(&value, sizeof value);
    return value;
}

void answer(uint32_t code, const std::string &message = "") {
    uint32_t head[2] = {code, uint32_t(message.size())};
    write_all(head, sizeof head);
    write_all(message.data(), message.size());
}

void fault(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    answer(2, text);
    send_answers();
    _exit(3);
}

std::string get_text() {
    std::string text(get<uint32_t>(), '\0');
    read_all(&text[0], text.size());
    return text;
}

struct Kernel {
    std::string name;
    void (*entry)(void **);
    char *shared;
    size_t shared_bytes;
};
std::vector<Kernel> kernels;

void allocate() {
    uint64_t bytes = get<uint64_t>();
    void *memory = nullptr;
    // As a driver does: nothing is promised of what is in it.
    if (posix_memalign(&memory, 512, bytes)) {
        answer(1, "out of memory");
        return;
    }
    memset(memory, 0xff, bytes);
    Allocation allocation = Allocation();
    allocation.bytes = bytes;
#ifdef SIMULATED_RACES
    allocation.shadow = static_cast<Access *>(calloc(bytes, sizeof(Access)));
#endif
    allocations[static_cast<char *>(memory)] = allocation;
    answer(0);
    uint64_t address = reinterpret_cast<uint64_t>(memory);
    write_all(&address, sizeof address);
}

void release_memory() {
    char *address = reinterpret_cast<char *>(get<uint64_t>());
    auto found = allocations.find(address);
    if (found == allocations.end()) {
        answer(1, "no allocation begins at that address");
        return;
    }
#ifdef SIMULATED_RACES
    free(found->second.shadow);
#endif
    free(found->first);
    allocations.erase(found);
    answer(0);
}

bool is_inside(char *from, uint64_t bytes) {
    auto after = allocations.upper_bound(from);
    if (after == allocations.begin())
        return false;
    auto &[start, allocation] = *--after;
    uint64_t offset = from - start;
    return offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

void upload() {
    char *to = reinterpret_cast<char *>(get<uint64_t>());
    uint64_t bytes = get<uint64_t>();
    if (!is_inside(to, bytes))
        fault("a copy to the device leaves its allocation");
    read_all(to, bytes);
    answer(0);
}

void download() {
    char *from = reinterpret_cast<char *>(get<uint64_t>());
    uint64_t bytes = get<uint64_t>();
    if (!is_inside(from, bytes))
        fault("a copy from the device leaves its allocation");
    answer(0);
    write_all(from, bytes);
}

void load() {
    std::string path = get_text(), name = get_text();
    uint64_t shared = get<uint64_t>();
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        answer(1, dlerror());
        return;
    }
    Kernel kernel;
    kernel.name = name;
    kernel.entry = reinterpret_cast<void (*)(void **)>(dlsym(library, "simulated_entry"));
    kernel.shared = static_cast<char *>(dlsym(library, "simulated_shared"));
    if (kernel.shared)
        kernel.shared = *reinterpret_cast<char **>(kernel.shared);
    kernel.shared_bytes = shared;
    kernels.push_back(kernel);
    answer(0);
}

void launch() {
    uint32_t index = get<uint32_t>();
    gridDim = get<Dimensions>();
    blockDim = get<Dimensions>();
    uint32_t count = get<uint32_t>();
    std::vector<uint64_t> addresses(count), lengths(count);
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = get<uint64_t>(), lengths[i] = get<uint64_t>();
    std::string constants = get_text();
    order = get<uint32_t>();
    if (index >= kernels.size())
        fault("there is no kernel %u", index);
    const Kernel &kernel = kernels[index];
    kernel_name = kernel.name.c_str();
    for (uint32_t i = 0; i < count; i++) {
        if (!is_inside(reinterpret_cast<char *>(addresses[i]), lengths[i]))
            fault("`%s`: operand %u leaves its allocation", kernel_name, i);
    }
    std::vector<void *> arguments;
    for (uint64_t &address : addresses)
        arguments.push_back(&address);
    arguments.push_back(&constants[0]);
    entry = kernel.entry;
    entry_arguments = arguments.data();
    fiber_count = blockDim.count();
    if (fiber_count == 0 || fiber_count > 1024)
        fault("`%s`: a block of %u threads", kernel_name, fiber_count);
    if (fibers.size() < fiber_count)
        fibers.resize(fiber_count, Fiber());
    for (unsigned i = 0; i < fiber_count; i++)
        fibers[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    if (warps.size() < (fiber_count + WARP - 1) / WARP)
        warps.resize((fiber_count + WARP - 1) / WARP);
    shared_memory = kernel.shared;
    shared_bytes = kernel.shared_bytes;
#ifdef WITH_ASAN
    for (auto &[start, allocation] : allocations)
        __asan_poison_memory_region(start, allocation.bytes);
    for (uint32_t i = 0; i < count; i++)
        __asan_unpoison_memory_region(reinterpret_cast<void *>(addresses[i]), lengths[i]);
#endif
#ifdef SIMULATED_RACES
    launch_number++;
    if (shared_shadow.size() < shared_bytes)
        shared_shadow.resize(shared_bytes);
#endif
    block_index = 0;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++, block_index++) {
                // So that a block cannot use what another left: all bits set are NaN in every type.
                if (shared_memory)
                    memset(shared_memory, 0xff, shared_bytes);
#ifdef SIMULATED_RACES
                shared_number++;
                is_running = true;
#endif
                run_block();
#ifdef SIMULATED_RACES
                is_running = false;
#endif
            }
#ifdef WITH_ASAN
    for (auto &[start, allocation] : allocations)
        __asan_unpoison_memory_region(start, allocation.bytes);
#endif
    answer(0);
}

} // namespace

#ifdef SIMULATED_RACES
extern "C" {
#define HOOKS(bytes)                                                                               \
    void __tsan_read##bytes(void *at) { access(at, bytes, false); }                                \
    void __tsan_write##bytes(void *at) { access(at, bytes, true); }                                \
    void __tsan_unaligned_read##bytes(void *at) { access(at, bytes, false); }                      \
    void __tsan_unaligned_write##bytes(void *at) { access(at, bytes, true); }                      \
    void __tsan_read_write##bytes(void *at) { access(at, bytes, true); }                           \
    void __tsan_unaligned_read_write##bytes(void *at) { access(at, bytes, true); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void *at, size_t bytes) { access(at, bytes, false); }
void __tsan_write_range(void *at, size_t bytes) { access(at, bytes, true); }
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    access(const_cast<void *>(from), bytes, false);
    access(to, bytes, true);
    return memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    access(to, bytes, true);
    return memset(to, value, bytes);
}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
#endif

int main() {
    for (;;) {
        switch (get<uint32_t>()) {
        case 1: allocate(); break;
        case 2: release_memory(); break;
        case 3: upload(); break;
        case 4: download(); break;
        case 5: load(); break;
        case 6: launch(); break;
        default: fault("an unknown request");
        }
    }
}

#pragma clang attribute pop
