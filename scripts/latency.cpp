// Times decisions of a policy that AOTInductor has compiled: latency FILE.pt2 DECISIONS WIDTH CHOICES
// prints the seconds of every decision; inputs are an observation (1, WIDTH) and a mask (1, CHOICES).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

int main(int, char **words) {
  at::set_num_threads(1);
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader policy(words[1], "model", true);
  const int decisions = std::atoi(words[2]);
  const std::vector<at::Tensor> inputs = {
      torch::full({1, std::atol(words[3])}, 0.1f),
      torch::ones({1, std::atol(words[4])}, torch::kBool)};
  std::vector<double> seconds(decisions);
  for (double &each : seconds) {
    const auto begin = std::chrono::steady_clock::now();
    policy.run(inputs);
    const auto end = std::chrono::steady_clock::now();
    each = std::chrono::duration<double>(end - begin).count();
  }
  for (double each : seconds) std::printf("%.9f\n", each);
}
