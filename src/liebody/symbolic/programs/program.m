function @name@()
%@NAME@  @title@
    y = [@start@]';
    steps = @steps@;
    h = @end@/steps;
    for n = 0:steps - 1
        t = n*h;
        k1 = field(t, y);
        k2 = field(t + h/2, y + h/2*k1);
        k3 = field(t + h/2, y + h/2*k2);
        k4 = field(t + h, y + h*k3);
        y = y + h/6*(k1 + 2*k2 + 2*k3 + k4);
@unit@    end
    fprintf('%.17g\n', y);
end

function dy = field(t, y)
%FIELD  dy/dt of y = (q, v): dq/dt = E(q) v, M(q) dv/dt = force.
    q = y(1:@nq@);
    v = y(@nq@ + 1:end);
    @call@
    dy = [rate; M\force];
end

