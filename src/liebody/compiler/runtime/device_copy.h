/* The kernel that copies rows between arrays of a device. Before this text: the types From, To and
   Mask. Row i comes from row (i / repeat) % period; only rows with chosen[i] != 0, or all. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    kernel(int64_t n, const From *from, int64_t from_step, int64_t repeat, int64_t period, To *to,
           int64_t to_step, int64_t width, const Mask *chosen) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        if (chosen && chosen[i] == 0) continue;
        const From *const row = from + i / repeat % period * from_step;
        for (int64_t j = 0; j < width; j++) to[i * to_step + j] = (To)row[j];
    }
}
