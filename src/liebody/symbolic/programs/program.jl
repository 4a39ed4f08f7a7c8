
using LinearAlgebra
using Printf

"dy/dt of y = (q, v): dq/dt = E(q) v, M(q) dv/dt = force."
function field(t, y)
    q, v = y[1:@nq@], y[@nq@ + 1:end]
    @call@
    return [rate; M \ force]
end

function main()
    y = Float64[@start@]
    steps = @steps@
    h = @end@ / steps
    for n in 0:steps - 1
        t = n * h
        k1 = field(t, y)
        k2 = field(t + h / 2, y + h / 2 * k1)
        k3 = field(t + h / 2, y + h / 2 * k2)
        k4 = field(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
@unit@    end
    for x in y
        @printf("%.17g\n", x)
    end
end

main()
