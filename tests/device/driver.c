/* Stands in for NVIDIA's driver, libcuda: it notes how it is called, and knows device 3 alone. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static FILE *notes;
static int depth;
#define NOTE(...) (fprintf(notes, __VA_ARGS__), fflush(notes))
CUresult cuInit(unsigned int flags) {
    if (getenv("NO_DEVICE")) return CUDA_ERROR_NO_DEVICE;
    notes = fopen(getenv("NOTES"), "a");
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult e, const char **text) {
    *text = e == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_INVALID_IMAGE";
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult e, const char **text) {
    *text = "words of the driver";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal + 100;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device) {
    if (device != 103) return CUDA_ERROR_INVALID_DEVICE;
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 1
                                                                    : -1;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    NOTE("retain %d\n", device);
    *context = (CUcontext)(size_t)0x1122334455667788;
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
    depth++;
    return context == (CUcontext)(size_t)0x1122334455667788 ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxPopCurrent(CUcontext *context) {
    depth--;
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute what, CUdeviceptr pointer) {
    if (pointer == 0x7000000000001000) return CUDA_ERROR_INVALID_VALUE;
    if (pointer == 0x7000000000004000 && !depth) return CUDA_ERROR_INVALID_CONTEXT;
    if (pointer == 0x7000000000005000) return CUDA_ERROR_LAUNCH_FAILED;
    const int host = pointer == 0x7000000000002000;
    if (what == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    else if (what == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *(int *)data = 3;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    if (strncmp(image, "IMAGE", 5)) return CUDA_ERROR_INVALID_IMAGE;
    *module = (CUmodule)(size_t)0x2233445566778899;
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    if (module != (CUmodule)(size_t)0x2233445566778899) return CUDA_ERROR_INVALID_HANDLE;
    NOTE("function %s\n", name);
    *function = (CUfunction)(size_t)0x33445566778899aa;
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void **parameters, void **extra) {
    NOTE("launch %d %zx grid %u %u %u block %u %u %u shared %u stream %zx extra %d arguments %llx "
         "%llx %lld\n",
         depth, (size_t)f, gx, gy, gz, bx, by, bz, shared, (size_t)stream, extra != NULL,
         *(unsigned long long *)parameters[0], *(unsigned long long *)parameters[1],
         *(long long *)parameters[2]);
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    *context = (CUcontext)(size_t)(stream == (CUstream)(size_t)9 ? 0x1122334455667788 : 0);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
    NOTE("wait %zx\n", (size_t)stream);
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) {
    NOTE("wait for all\n");
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
    NOTE("unload %d %zx\n", depth, (size_t)module);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
    NOTE("write %llx %zu %.4s stream %zx\n", to, size, (const char *)from, (size_t)stream);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream) {
    NOTE("read %llx %zu stream %zx\n", from, size, (size_t)stream);
    memset(to, 7, size);
    return CUDA_SUCCESS;
}
