// A periodic orbit proved with CAPD, as benchmarks/proofs_capd.py compares it with liebody's proof.
//
//     proofs_capd ORBIT ORDER
//
// The orbit is a fixed point of an iterate P of a Poincare map. The interval Newton operator
//
//     N(X) = c - (DP(X) - I)^-1 (P(c) - c)
//
// of a box X with the centre c shows that X has exactly one fixed point, if N(X) lies in its interior. The
// largest box of a sequence of radii is the box of uniqueness, as liebody reports one. Then X is replaced by
// the intersection with N(X) while that makes it smaller, and the return time on it encloses the period.
//
// Prints: seconds of processor time of the second of two proofs, radius of the box of uniqueness, lower and
// upper bound of the period, lower and upper bound of the largest modulus of a multiplier (by a norm of DP
// for an upper bound, so that it says only whether the orbit is stable).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "capd/capdlib.h"

using capd::ICoordinateSection;
using capd::IMap;
using capd::IMatrix;
using capd::interval;
using capd::IOdeSolver;
using capd::IPoincareMap;
using capd::IVector;

namespace {

struct Parameter {
  std::string name;
  interval value;
};

// An orbit, and the section that it starts on: one coordinate is zero there.
struct Orbit {
  std::string field;
  std::vector<Parameter> parameters;
  std::vector<double> start;
  int section;
  capd::poincare::CrossingDirection direction;
  int crossings;
};

// The double nearest to a number, as liebody's proof has it by default.
std::vector<Parameter> van_der_pol(double mu) { return {{"mu", interval(mu)}}; }

std::map<std::string, Orbit> orbits() {
  using namespace capd::poincare;
  const std::string oscillator = "par:mu;var:q,v;fun:v,mu*(1-q*q)*v-q;";
  const std::string chaos = "par:a,b;var:x,y,z;fun:-(y+z),x+b*y,b+z*(x-a);";
  const std::vector<Parameter> of_chaos = {{"a", interval(5.7)}, {"b", interval(0.2)}};
  return {
      {"van_der_pol_1", {oscillator, van_der_pol(1), {2.00861986086, 0}, 1, PlusMinus, 1}},
      {"van_der_pol_3", {oscillator, van_der_pol(3), {2.0233041413, 0}, 1, PlusMinus, 1}},
      {"van_der_pol_10", {oscillator, van_der_pol(10), {2.01428536075, 0}, 1, PlusMinus, 1}},
      {"roessler_1", {chaos, of_chaos, {0, -8.38094174282988, 0.029590060630667}, 0, MinusPlus, 1}},
      {"roessler_2", {chaos, of_chaos, {0, -5.424073822665206, 0.0310812108078764}, 0, MinusPlus, 2}},
      {"roessler_3", {chaos, of_chaos, {0, -6.233158628537977, 0.0306401116581606}, 0, MinusPlus, 3}},
  };
}

struct Proved {
  double radius;
  interval period;
  interval largest;
};

class Proof {
 public:
  Proof(const Orbit& orbit, int order)
      : orbit_(orbit),
        n_(static_cast<int>(orbit.start.size())),
        field_(with_parameters(orbit)),
        solver_(field_, order),
        section_(n_, orbit.section),
        map_(solver_, section_, orbit.direction) {}

  Proved run() {
    IVector X(n_ - 1);
    double radius = 0;
    for (double tried : {3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12}) {
      const IVector box = around(tried);
      try {
        const IVector image = newton(box);
        if (subsetInterior(image, box)) {
          X = image;
          radius = tried;
          break;
        }
      } catch (std::exception&) {
        // the box is too large for CAPD's steps, or the derivative for a division
      }
    }
    if (radius == 0) return {0, interval(0), interval(0)};
    // tighter, while it pays
    for (int k = 0; k < 4; ++k) {
      const double before = size(X);
      intersection(X, newton(X), X);
      if (size(X) > 0.9 * before) break;
    }
    return {radius, period_, largest()};
  }

 private:
  static IMap with_parameters(const Orbit& orbit) {
    IMap field(orbit.field);
    for (const Parameter& x : orbit.parameters) field.setParameter(x.name, x.value);
    return field;
  }

  static double size(const IVector& X) {
    double widest = 0;
    for (const interval& x : X) widest = std::max(widest, x.rightBound() - x.leftBound());
    return widest;
  }

  IVector around(double radius) const {
    IVector X(n_ - 1);
    for (int k = 0, j = 0; k < n_; ++k)
      if (k != orbit_.section) X[j++] = interval(orbit_.start[k]) + interval(-radius, radius);
    return X;
  }

  // A point or box of the section in the state space.
  IVector embedded(const IVector& X) const {
    IVector x(n_);
    for (int k = 0, j = 0; k < n_; ++k) x[k] = k == orbit_.section ? interval(0.) : X[j++];
    return x;
  }

  IVector projected(const IVector& x) const {
    IVector X(n_ - 1);
    for (int k = 0, j = 0; k < n_; ++k)
      if (k != orbit_.section) X[j++] = x[k];
    return X;
  }

  // N(X); keeps the derivative of P and the return time on X.
  IVector newton(const IVector& X) {
    const IVector c = midVector(X);
    capd::C0HOTripletonSet point(embedded(c));
    interval time;
    const IVector image = projected(map_(point, time, orbit_.crossings));
    capd::C1HORect2Set box(embedded(X));
    IMatrix flow(n_, n_);
    const IVector end = map_(box, flow, period_, orbit_.crossings);
    const IMatrix D = map_.computeDP(end, flow);
    slope_ = IMatrix(n_ - 1, n_ - 1);
    for (int i = 0, a = 0; i < n_; ++i) {
      if (i == orbit_.section) continue;
      for (int j = 0, b = 0; j < n_; ++j)
        if (j != orbit_.section) slope_[a][b++] = D[i][j];
      ++a;
    }
    return c - capd::matrixAlgorithms::gauss(slope_ - IMatrix::Identity(n_ - 1), image - c);
  }

  // The largest modulus of the eigenvalues of the derivative, of one or two rows.
  interval largest() const {
    if (n_ == 2) return capd::abs(slope_[0][0]);
    const interval trace = slope_[0][0] + slope_[1][1];
    const interval determinant = slope_[0][0] * slope_[1][1] - slope_[0][1] * slope_[1][0];
    const interval root = sqrt(sqr(trace) - interval(4.) * determinant);  // real ones, else an exception
    return capd::max(capd::abs((trace - root) / interval(2.)), capd::abs((trace + root) / interval(2.)));
  }

  const Orbit& orbit_;
  int n_;
  IMap field_;
  IOdeSolver solver_;
  ICoordinateSection section_;
  IPoincareMap map_;
  interval period_;
  IMatrix slope_;
};

}  // namespace

int main(int count, char** words) {
  const auto known = orbits();
  if (count != 3 || !known.count(words[1])) {
    std::fprintf(stderr, "usage: proofs_capd ORBIT ORDER, with an orbit of this file\n");
    return 2;
  }
  const Orbit& orbit = known.at(words[1]);
  try {
    Proof proof(orbit, std::atoi(words[2]));
    proof.run();
    const std::clock_t before = std::clock();
    const Proved proved = proof.run();
    const double seconds = double(std::clock() - before) / CLOCKS_PER_SEC;
    if (proved.radius == 0) {
      std::fprintf(stderr, "no box was proved to have an orbit\n");
      return 1;
    }
    std::printf("%.6g %.3g %.17g %.17g %.17g %.17g\n", seconds, proved.radius, proved.period.leftBound(),
                proved.period.rightBound(), proved.largest.leftBound(), proved.largest.rightBound());
  } catch (std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
