/* Steps of length h for members 0 .. n - 1, as `fixed_steps` of flow.h. Where the equations of a step cannot be solved, that member
   is NaN from there on, and losses[2 i] is the time at which that step began, losses[2 i + 1] the reason. count[0] counts iterations,
   count[1] Jacobians (of LANES members at a time). Returns 0, or -1 without memory.

   MEMORY: what a method remembers of its last step is made to fit parts of steps that end at samples by
       fit(y, made, h, fitted)   restart(y, made, t, h, u, fitted)
   the latter where efforts jump (JUMPS); made is the length of the last part. Between whole steps y fits steps of h. */
long implicit_steps(long n, double *y, const Samples *e, double t0, double h, long steps, long every, double *record,
                    long records, long first, long *failed, double *losses, long *count) {
    T *work = aligned_alloc(sizeof(T), (SYSTEM + LARGEST + KEPT) * sizeof(T)), *x = work + SYSTEM, *z = x + LARGEST;
    I *pivot = aligned_alloc(sizeof(I), LARGEST * sizeof(I));
    if (!work || !pivot) {
        free(work), free(pivot);
        return -1;
    }
    for (long i = 0; i < n; i += LANES) {
        long rows = n - i < LANES ? n - i : LANES;
        T now[POINT], next[POINT], u[NODES * EFFORTS + 1];
        I lost = bits(splat(0));
        load(now, POINT, y + i * POINT, POINT, rows);
        for (long s = 0, row = first; s < steps; s++) {
            const double begin = t0 + (double)s * h, end = t0 + (double)(s + 1) * h;
            double from = begin, stop, made = h;
            do { /* in parts, where there are samples within the step */
                const long piece = piece_at(e, from);
                stop = part_end(e, from, end);
                const double length = from == begin && stop == end ? h : stop - from;
                T t = splat(from), step = splat(length);
                if (!s || e->samples > 1)
                    for (int k = 0; k < NODES; k++) sample(e, piece, from + nodes[k] * length, i, rows, u + k * EFFORTS);
#if MEMORY
                T past = splat(made);
#if JUMPS
                if (jumps(e, from)) {
                    restart(now, &past, &t, &step, u, next);
                    memcpy(now, next, sizeof now);
                } else
#endif
                if (length != made) {
                    fit(now, &past, &step, next);
                    memcpy(now, next, sizeof now);
                }
#endif
                I before = lost;
                phases(&t, &step, now, u, x, z, work, pivot, &lost, count);
                finish(z, &t, &step, now, u, next);
                for (int j = 0; j < POINT; j++) now[j] = where(MASK(lost != 0), splat(NAN), next[j]);
                I newly = lost & MASK(before == 0);
                if (any(MASK(newly != 0)))
                    for (int lane = 0; lane < rows; lane++)
                        if (LANE(newly) && !failed[i + lane])
                            losses[2 * (i + lane)] = from, losses[2 * (i + lane) + 1] = (double)LANE(newly);
                from = stop, made = length;
            } while (from < end);
#if MEMORY
            if (made != h) {
                T past = splat(made), step = splat(h);
                fit(now, &past, &step, next);
                memcpy(now, next, sizeof now);
            }
#endif
            if ((s + 1) % every) continue;
            keep_sample(now, i, rows, record, records, row++, failed);
        }
        save(now, POINT, y + i * POINT, POINT, rows);
    }
    free(work), free(pivot);
    return 0;
}
