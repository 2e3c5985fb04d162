// Which nodes of a segment may take a micro-batch in chunks of rows. A document longer than the
// chunk then passes through several nodes chunk by chunk, and what lies between them never exists
// as a whole.
#pragma once

#include <vector>

#include "model/graph.h"

namespace lazytrain {

// Neighbouring nodes that take chunks together, or one node that needs all rows.
struct RowRun {
  int first = 0;  // nodes, both ends included
  int last = 0;
  bool in_chunks = false;
};

struct RowRuns {
  std::vector<RowRun> runs;      // in the order of nodes
  std::vector<int> run_of_node;  // positions in `runs`
  // For each value: written and read inside one run that takes chunks, and nowhere else.
  std::vector<bool> inner;
};

// For each segment of the chain.
std::vector<RowRuns> FindRowRuns(const SegmentChain& chain);

}  // namespace lazytrain
