// plan.html: tables and SVG drawings, written in one go.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/units.h"
#include "report/plan_report.h"

namespace lazytrain {
namespace {

constexpr int kWidth = 1180;  // pixels of a drawing

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Plan: {title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1220px; color: #1a1a1a; }}
h1 {{ font-size: 22px; }} h2 {{ font-size: 17px; margin-top: 28px; }}
table {{ border-collapse: collapse; }} td, th {{ padding: 2px 8px; text-align: left; }}
.tiers td {{ width: 24px; text-align: center; padding: 1px 5px; border: 1px solid #fff; font: 12px monospace; }}
.tiers th {{ font-weight: 500; font-size: 12px; white-space: nowrap; }}
.D {{ background: #1f5fa8; color: #fff; }} .H {{ background: #bcd7f2; }} .N {{ background: #e8e0c8; }}
.R {{ background: #f2f2f2; color: #777; }}
svg {{ display: block; background: #fcfcfc; border: 1px solid #ddd; }}
svg text {{ font: 12px system-ui, sans-serif; fill: #1a1a1a; }}
.scroll {{ overflow-x: auto; }}
</style></head><body>
)";

// One letter a cell, so that colour is not needed: device, host, nvme, recomputed.
std::string TierMap(const PlanReport& report) {
  constexpr std::string_view kLetters = "DHNR";
  const SegmentChain& chain = report.model->loss;
  std::vector<std::string> names;
  for (const Segment& segment : chain) {
    for (const ValueGroup& group : segment.graph->groups) {
      if (std::find(names.begin(), names.end(), group.name) == names.end()) {
        names.push_back(group.name);
      }
    }
  }
  std::string html =
      "<h2>Where values wait for backward</h2><p>D on the device, H in host memory, N on NVMe, "
      "R recomputed; weights: D resident, a dot streamed.</p><div class=\"scroll\"><table "
      "class=\"tiers\"><tr><th>layer</th><th>weights</th>";
  for (const std::string& name : names) html += "<th>" + Escaped(name) + "</th>";
  html += "</tr>\n";
  for (size_t s = 0; s < chain.size(); ++s) {
    const bool resident = std::all_of(chain[s].units.begin(), chain[s].units.end(), [&](int unit) {
      return report.schedule->units[unit].weights_resident;
    });
    const std::string_view weights = chain[s].units.empty() ? "" : resident ? "D" : "·";
    html += fmt::format("<tr><th>{}</th><td>{}</td>", Escaped(chain[s].name), weights);
    for (const std::string& name : names) {
      const int group = chain[s].graph->FindGroup(name);
      if (group < 0) {
        html += "<td></td>";
        continue;
      }
      const char letter = kLetters[static_cast<size_t>(report.schedule->segments[s].tiers[group])];
      html += fmt::format("<td class=\"{0}\">{0}</td>", letter);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string MemoryDrawing(const PlanReport& report) {
  constexpr int kHeight = 200;
  constexpr int kLeft = 70;
  const double seconds = std::max(report.timeline->seconds, 1e-12);
  const double top = std::max(report.device_cap, static_cast<double>(report.device_bytes)) * 1.05;
  const auto x = [&](double t) { return kLeft + (kWidth - kLeft - 10) * t / seconds; };
  const auto y = [&](double bytes) { return kHeight - 20 - (kHeight - 40) * bytes / top; };
  std::string points;
  double last = 0;
  for (const MemoryPoint& point : MemoryCurve(*report.program, *report.timeline, kDeviceSpace)) {
    const auto bytes = static_cast<double>(point.bytes);
    points += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x(point.seconds), y(last),
                          x(point.seconds), y(bytes));
    last = bytes;
  }
  return fmt::format(
      "<h2>Device memory over one step</h2><svg role=\"img\" aria-label=\"device memory\" "
      "width=\"{0}\" height=\"{1}\"><polyline fill=\"none\" stroke=\"#1f5fa8\" "
      "stroke-width=\"1.5\" points=\"{2}\"/><line x1=\"{3}\" x2=\"{4}\" y1=\"{5:.1f}\" "
      "y2=\"{5:.1f}\" stroke=\"#a33\" stroke-dasharray=\"6 4\"/><text x=\"{3}\" "
      "y=\"{6:.1f}\">cap {7}</text><text x=\"4\" y=\"{8:.1f}\">0</text><text x=\"{9}\" "
      "y=\"{10}\" text-anchor=\"end\">{11}</text></svg>\n",
      kWidth, kHeight, points, kLeft, kWidth - 10, y(report.device_cap), y(report.device_cap) - 5,
      FormatBytes(static_cast<int64_t>(report.device_cap)), y(0), kWidth - 12, kHeight - 4,
      FormatSeconds(seconds));
}

// Neighbouring instructions of one kind become one bar; stalls are hatched.
std::string LaneDrawing(const PlanReport& report) {
  constexpr int kRow = 34;
  constexpr int kLeft = 70;
  const Program& program = *report.program;
  const double seconds = std::max(report.timeline->seconds, 1e-12);
  const double scale = (kWidth - kLeft - 10) / seconds;
  std::string bars;
  for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
    const double y = 6 + kRow * static_cast<double>(lane);
    bars += fmt::format("<text x=\"4\" y=\"{:.0f}\">{}</text>", y + 16,
                        Escaped(program.lanes[lane].name));
    double begin = -1;
    double end = 0;
    const auto flush = [&] {
      if (begin < 0) return;
      bars += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"22\"/>",
                          kLeft + begin * scale, y, std::max(0.3, (end - begin) * scale));
    };
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (program.instructions[i].lane != static_cast<int>(lane)) continue;
      const TimedSpan& span = report.timeline->spans[i];
      if (span.end <= span.start) continue;
      // What no pixel tells apart is one bar.
      if (begin >= 0 && (span.start - end) * scale < 0.5) {
        end = span.end;
        continue;
      }
      flush();
      if (begin >= 0) {
        bars += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"22\" "
            "style=\"fill:url(#stall)\"/>",
            kLeft + end * scale, y, (span.start - end) * scale);
      }
      begin = span.start;
      end = span.end;
    }
    flush();
  }
  return fmt::format(
      "<h2>Lanes over one step</h2><p>Solid: busy. Hatched: standing still between two pieces of "
      "work.</p><svg role=\"img\" aria-label=\"lanes\" width=\"{}\" height=\"{}\" "
      "fill=\"#1f5fa8\"><defs><pattern id=\"stall\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" "
      "height=\"6\" fill=\"#fff\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#c06030\" "
      "stroke-width=\"2\"/></pattern></defs>{}</svg>\n",
      kWidth, 10 + kRow * static_cast<int>(program.lanes.size()), bars);
}

std::string Facts(const PlanReport& report) {
  const auto row = [](std::string_view name, const std::string& value) {
    return fmt::format("<tr><th>{}</th><td>{}</td></tr>", name, Escaped(value));
  };
  std::string html = "<table>";
  html += row("predicted step",
              fmt::format("{}, {:.0f} tokens/s", FormatSeconds(report.timeline->seconds),
                          report.tokens / report.timeline->seconds));
  html += row(
      "passes",
      fmt::format("{} of {} micro-batches of {} tokens", report.schedule->passes.size(),
                  fmt::join(report.schedule->passes, "+"), report.schedule->micro_batch_tokens));
  html += row("device memory", fmt::format("{} of {}", FormatBytes(report.device_bytes),
                                           FormatBytes(static_cast<int64_t>(report.device_cap))));
  html += row("host memory",
              fmt::format("{} activations, {} weights, gradients and states",
                          FormatBytes(report.activation_bytes), FormatBytes(report.store_bytes)));
  if (report.plan != nullptr && report.plan->feasible) {
    html += row("proof", fmt::format("no schedule below {}: gap {:.2f}%, {} to solve{}",
                                     FormatSeconds(report.plan->bound), 100 * report.plan->gap(),
                                     FormatSeconds(report.plan->solve_seconds),
                                     report.plan->time_ended ? " (ended by the time limit)" : ""));
  }
  return html + "</table>\n";
}

}  // namespace

std::string PlanPage(const PlanReport& report) {
  return fmt::format(fmt::runtime(kHead), fmt::arg("title", Escaped(report.title))) +
         fmt::format("<h1>Plan: {}</h1><p>{}</p>\n", Escaped(report.title),
                     Escaped(Explain(report))) +
         Facts(report) + LaneDrawing(report) + MemoryDrawing(report) + TierMap(report) +
         "</body></html>\n";
}

}  // namespace lazytrain
