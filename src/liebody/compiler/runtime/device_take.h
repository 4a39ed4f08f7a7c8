/* The kernel that takes one row of the table of each member. Before this text: the type real, the
   numbers LENGTH of rows and SIZE of a row. A table is a ring: the row is index modulo LENGTH. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    kernel(int64_t n, const real *restrict table, const real *restrict index, real *restrict row,
           int64_t table_step, int64_t index_step) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t k = (int64_t)index[i * index_step] % LENGTH;
        const real *const taken = table + i * table_step + k * SIZE;
        for (int64_t j = 0; j < SIZE; j++) row[i * SIZE + j] = taken[j];
    }
}
