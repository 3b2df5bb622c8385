// A stand-in for the library of NVIDIA's driver, as `libcuda.so`.
//
// It has the calls that `library.rs` makes, memory on the host, and no card: a launch checks its
// arguments against the kernel's PTX and does nothing. So tests execute the code that calls the driver.
// The environment variable FITGPT_FAILING_CALL, `call=error=n`, makes a call fail after it succeeded n
// times; FITGPT_ARCHITECTURE is the card's, 89 if it is not set.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr size_t TOTAL_BYTES = size_t(12) << 30;

enum Error {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
};

struct Function {
    std::string signature; // in PTX
    int shared_bytes = 0;
};

std::mutex lock;
std::map<uint64_t, size_t> allocations;
size_t allocated_bytes = 0;
int contexts = 0;
thread_local bool is_current = false;

// The error with which this call fails, or 0.
int failing(const char *call) {
    static std::map<std::string, int> counts;
    std::lock_guard<std::mutex> guard(lock);
    const char *wish = std::getenv("FITGPT_FAILING_CALL");
    size_t length = std::strlen(call);
    if (!wish || std::strncmp(wish, call, length) != 0 || wish[length] != '=') {
        return SUCCESS;
    }
    int error = 0, before = 0;
    std::sscanf(wish + length, "=%d=%d", &error, &before);
    return counts[call]++ < before ? int(SUCCESS) : error;
}

bool holds(uint64_t address, size_t bytes) {
    std::lock_guard<std::mutex> guard(lock);
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) {
        return false;
    }
    auto found = std::prev(after);
    return address + bytes <= found->first + found->second;
}

} // namespace

#define CALL(name)                          \
    do {                                    \
        int error = failing(name);          \
        if (error) {                        \
            return error;                   \
        }                                   \
    } while (false)

#define NEEDS_CONTEXT                       \
    do {                                    \
        if (!is_current || contexts == 0) { \
            return INVALID_CONTEXT;         \
        }                                   \
    } while (false)

extern "C" {

int cuInit(unsigned) {
    CALL("cuInit");
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name) {
    switch (error) {
    case 1: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case 101: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    case 201: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case 214: *name = "CUDA_ERROR_ECC_UNCORRECTABLE"; break;
    case 218: *name = "CUDA_ERROR_INVALID_PTX"; break;
    case 222: *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; break;
    case 500: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case 701: *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; break;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    CALL("cuDeviceGetCount");
    *count = 1;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    CALL("cuDeviceGet");
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int length, int) {
    CALL("cuDeviceGetName");
    std::snprintf(name, length, "NVIDIA stand-in");
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int) {
    CALL("cuDeviceTotalMem");
    *bytes = TOTAL_BYTES;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int which, int) {
    CALL("cuDeviceGetAttribute");
    const char *wish = std::getenv("FITGPT_ARCHITECTURE");
    int architecture = wish ? std::atoi(wish) : 89;
    switch (which) {
    case 16: *value = 46; break;             // multiprocessors
    case 75: *value = architecture / 10; break;
    case 76: *value = architecture % 10; break;
    case 97: *value = 101376; break;         // shared memory of a block, on demand
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int) {
    CALL("cuDevicePrimaryCtxRetain");
    std::lock_guard<std::mutex> guard(lock);
    contexts++;
    *context = &contexts;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) {
    std::lock_guard<std::mutex> guard(lock);
    contexts--;
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    CALL("cuCtxSetCurrent");
    is_current = context == &contexts;
    return is_current && contexts > 0 ? SUCCESS : INVALID_CONTEXT;
}

int cuStreamCreate(void **stream, unsigned) {
    CALL("cuStreamCreate");
    NEEDS_CONTEXT;
    *stream = std::malloc(1);
    return SUCCESS;
}

int cuStreamDestroy_v2(void *stream) {
    std::free(stream);
    return SUCCESS;
}

int cuStreamSynchronize(void *stream) {
    CALL("cuStreamSynchronize");
    return stream ? SUCCESS : INVALID_VALUE;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CALL("cuMemGetInfo");
    NEEDS_CONTEXT;
    *total = TOTAL_BYTES;
    *free_bytes = TOTAL_BYTES - allocated_bytes;
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    CALL("cuMemAlloc");
    NEEDS_CONTEXT;
    void *memory = bytes <= TOTAL_BYTES - allocated_bytes ? std::calloc(1, bytes) : nullptr;
    if (!memory) {
        return OUT_OF_MEMORY;
    }
    std::lock_guard<std::mutex> guard(lock);
    *address = reinterpret_cast<uint64_t>(memory);
    allocations[*address] = bytes;
    allocated_bytes += bytes;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address) {
    CALL("cuMemFree");
    NEEDS_CONTEXT;
    std::lock_guard<std::mutex> guard(lock);
    auto found = allocations.find(address);
    if (found == allocations.end()) {
        return INVALID_VALUE;
    }
    allocated_bytes -= found->second;
    allocations.erase(found);
    std::free(reinterpret_cast<void *>(address));
    return SUCCESS;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
    CALL("cuMemcpyHtoDAsync");
    NEEDS_CONTEXT;
    if (!holds(to, bytes)) {
        return ILLEGAL_ADDRESS;
    }
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
    CALL("cuMemcpyDtoHAsync");
    NEEDS_CONTEXT;
    if (!holds(from, bytes)) {
        return ILLEGAL_ADDRESS;
    }
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return SUCCESS;
}

int cuModuleLoadData(void **module, const void *image) {
    CALL("cuModuleLoadData");
    NEEDS_CONTEXT;
    const char *ptx = static_cast<const char *>(image);
    if (std::strncmp(ptx, ".version", 8) != 0) {
        return INVALID_PTX;
    }
    *module = new std::string(ptx);
    return SUCCESS;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALL("cuModuleGetFunction");
    const std::string &ptx = *static_cast<std::string *>(module);
    size_t start = ptx.find(".entry " + std::string(name) + "(");
    size_t body = start == std::string::npos ? start : ptx.find('{', start);
    if (body == std::string::npos) {
        return NOT_FOUND;
    }
    *function = new Function{ptx.substr(start, body - start)};
    return SUCCESS;
}

int cuFuncSetAttribute(void *function, int which, int value) {
    CALL("cuFuncSetAttribute");
    if (which != 8 || value > 101376) {
        return INVALID_VALUE;
    }
    static_cast<Function *>(function)->shared_bytes = value;
    return SUCCESS;
}

int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **) {
    CALL("cuLaunchKernel");
    NEEDS_CONTEXT;
    const Function &function = *static_cast<Function *>(handle);
    if (!stream || gx == 0 || gy == 0 || gz == 0 || gy > 65535 || gz > 65535) {
        return INVALID_VALUE;
    }
    unsigned most[3] = {1024, 1, 1};
    size_t bounds = function.signature.find(".maxntid");
    if (bounds != std::string::npos) {
        std::sscanf(function.signature.c_str() + bounds, ".maxntid %u, %u, %u", &most[0], &most[1], &most[2]);
    }
    bool is_too_large = bx * by * bz > most[0] * most[1] * most[2];
    if (is_too_large || int(shared_bytes) != function.shared_bytes) {
        return LAUNCH_OUT_OF_RESOURCES;
    }
    // Operands are addresses; the last parameter is a structure.
    size_t at = 0, index = 0;
    while ((at = function.signature.find(".param", at)) != std::string::npos) {
        size_t end = function.signature.find_first_of(",\n", at);
        std::string declaration = function.signature.substr(at, end - at);
        const void *argument = arguments[index++];
        size_t bracket = declaration.find('[');
        if (bracket != std::string::npos) {
            std::string copy(static_cast<const char *>(argument), std::stoul(declaration.substr(bracket + 1)));
        } else {
            uint64_t address;
            std::memcpy(&address, argument, sizeof address);
            if (!holds(address, 1)) {
                return ILLEGAL_ADDRESS;
            }
        }
        at = end;
    }
    return index == 0 ? INVALID_VALUE : SUCCESS;
}

} // extern "C"
