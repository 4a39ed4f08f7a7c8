/* Row `row` of record (n, records, POINT) for members i .. i + rows - 1; failed of those that are not finite is 1 + row. */
INLINE void keep_sample(const T *now, long i, long rows, double *record, long records, long row, long *failed) {
    save(now, POINT, record + (i * records + row) * POINT, records * POINT, rows);
    T bad = splat(0);
    for (int j = 0; j < POINT; j++) bad += now[j] - now[j];
    if (any(MASK(bad != 0)))
        for (int lane = 0; lane < rows; lane++)
            if (LANE(bad) != 0 && !failed[i + lane]) failed[i + lane] = row + 1;
}
