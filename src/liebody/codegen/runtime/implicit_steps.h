/* Steps of length h for members 0 .. n - 1, as `fixed_steps` of flow.h. Where the equations of a step
   cannot be solved, that member is NaN from there on, and losses[2 i] is the time at which that step began,
   losses[2 i + 1] the reason. count[0] counts iterations, count[1] Jacobians (of LANES members at a time).
   Returns 0, or -1 without memory. */
long implicit_steps(long n, double *y, const Efforts *e, double t0, double h, long steps, long every,
                    double *record, long records, long first, long *failed, double *losses, long *count) {
    T *work = aligned_alloc(sizeof(T), (SYSTEM + LARGEST + KEPT) * sizeof(T));
    T *x = work + SYSTEM, *z = x + LARGEST;
    I *pivot = aligned_alloc(sizeof(I), LARGEST * sizeof(I));
    if (!work || !pivot) {
        free(work), free(pivot);
        return -1;
    }
    for (long i = 0; i < n; i += LANES) {
        long rows = n - i < LANES ? n - i : LANES;
        T now[POINT], next[POINT], u[NODES * EFFORTS + 1], step = splat(h);
        I lost = bits(splat(0));
        load(now, POINT, y + i * POINT, POINT, rows);
        for (long s = 0, row = first; s < steps; s++) {
            double begin = t0 + (double)s * h;
            T t = splat(begin);
            if (!s || e->samples > 1)
                for (int k = 0; k < NODES; k++) sample(e, begin + nodes[k] * h, i, rows, u + k * EFFORTS);
            I before = lost;
            phases(&t, &step, now, u, x, z, work, pivot, &lost, count);
            finish(z, &t, &step, now, u, next);
            for (int j = 0; j < POINT; j++) now[j] = where(MASK(lost != 0), splat(NAN), next[j]);
            I newly = lost & MASK(before == 0);
            if (any(MASK(newly != 0)))
                for (int lane = 0; lane < rows; lane++)
                    if (LANE(newly) && !failed[i + lane])
                        losses[2 * (i + lane)] = begin, losses[2 * (i + lane) + 1] = (double)LANE(newly);
            if ((s + 1) % every) continue;
            keep_sample(now, i, rows, record, records, row++, failed);
        }
        save(now, POINT, y + i * POINT, POINT, rows);
    }
    free(work), free(pivot);
    return 0;
}
