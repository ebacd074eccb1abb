// The inner loops of elimination, one copy for each kind of vectors.
#include "eliminate.hpp"

namespace sharpdnf {

namespace lanes {

SHARPDNF_CLONES void or_run(double *__restrict into, const double *__restrict from, int count) {
    for (int i = 0; i < count; ++i) into[i] += (1.0 - into[i]) * from[i];
}
SHARPDNF_CLONES void or_picked(double *__restrict into, const double *__restrict from, const int32_t *__restrict place,
                               int count) {
    for (int i = 0; i < count; ++i) into[i] += (1.0 - into[i]) * from[place[i]];
}
SHARPDNF_CLONES void times_run(double *__restrict into, const double *__restrict from, int count) {
    for (int i = 0; i < count; ++i) into[i] *= from[i];
}
SHARPDNF_CLONES void times_picked(double *__restrict into, const double *__restrict from,
                                  const int32_t *__restrict place, int count) {
    for (int i = 0; i < count; ++i) into[i] *= from[place[i]];
}
SHARPDNF_CLONES void mix_run(double *__restrict out, const double *__restrict high, const double *__restrict low,
                             double weight_high, double weight_low, int count) {
    for (int i = 0; i < count; ++i) out[i] = weight_high * high[i] + weight_low * low[i];
}

}  // namespace lanes

}  // namespace sharpdnf
