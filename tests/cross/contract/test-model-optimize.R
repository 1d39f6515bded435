test_that("a model is requantized, and the report says how", {
  # One round of timing is enough to check that all columns exist.
  measure <- reticulate::import("llamaherd.optimize.measure")
  rounds <- measure$N_ROUNDS
  measure$N_ROUNDS <- 1L
  withr::defer(measure$N_ROUNDS <- rounds)
  folder <- withr::local_tempdir()
  path <- file.path(
    dirname(Sys.getenv("LLAMAHERD_TEST_SMOLLM2")),
    "SmolLM2-135M-Instruct.Q4_1.gguf"
  )
  text <- paste("In year", 1:20, "the river rose by", 1:20 %% 7, "feet.")
  report <- model_optimize(path, folder, types = "Q8_0", text = text)
  expect_identical(report$type, c("Q4_1", "Q8_0"))
  expect_true(all(
    report$prefill_tokens_per_s > 0 & report$decode_tokens_per_s > 0
  ))
  expect_lt(report$mean_kl[[2]], 0.01)
  expect_gt(report$mean_kl[[2]], 0)
  expect_gt(report$same_top[[2]], 0.9)
  kept <- attr(report, "path")
  expect_true(file.exists(kept))
  chosen <- attr(report, "chosen")
  expect_length(
    list.files(folder, all.files = TRUE, no.. = TRUE),
    as.integer(!is.na(chosen))
  )
  expect_output(print(report), "Kept", fixed = TRUE)
  expect_error(
    model_optimize(path, folder, types = "Q4_1"),
    "`types[1]` is 'Q4_1', the type of the model itself",
    fixed = TRUE,
    class = "llamaherd_error_argument"
  )
})
