// How fast a run is, as its reports count it.
#pragma once

#include <cstdint>
#include <vector>

namespace lazytrain {

// Of at least one value; the upper of two middle ones.
double Median(std::vector<double> values);

// The usual count of training: 6 FLOPs a parameter and token, recomputation not counted.
double TrainingTflops(int64_t parameters, double tokens_per_second);

}  // namespace lazytrain
