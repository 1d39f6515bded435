# Compares real models whose layers are all on a GPU with the same models on the
# processor, in R. The GPU may be one that a driver imitates (scripts/vulkan.sh).
# Kernels of a GPU round differently from kernels of the processor, but a wrong cell
# of the KV cache would change numbers by far more.

# Of a log-probability. The processor also rounds activations to 8 bits.
rounding <- 0.5

# Calls a function with a model on the GPU, and with the same model on the
# processor. Returns a list of both values.
on_both <- function(variable, compute) {
  path <- Sys.getenv(variable)
  lapply(c(gpu = -1L, processor = 0L), \(n) {
    compute(model_load(path, n_gpu_layers = n))
  })
}

on_contexts <- function(compute) {
  on_both("LLAMAHERD_TEST_SMOLLM2", \(model) {
    context <- context_create(model, n_seq_max = 4, n_threads = 1)
    on.exit(close(context))
    compute(context)
  })
}

expect_close <- function(gpu, processor) {
  expect_identical(dim(gpu), dim(processor))
  expect_false(anyNA(gpu))
  expect_lt(max(abs(gpu - processor)), rounding)
}

test_that("R finds the GPU, and puts layers there", {
  hardware <- hardware_profile()
  expect_true(hardware$uses_gpu)
  expect_identical(hardware$gpu$source, "libllama")
  expect_gt(hardware$gpu$vram_bytes, 0)
  expect_identical(gpu_layers("auto"), -1L)
})

test_that("answers continue as on the processor", {
  # The model is sure enough of these answers that rounding does not matter.
  prompts <- vapply(0:7, \(i) paste0(toString(0:7 + i), ","), "")
  answers <- on_contexts(\(context) {
    found <- generate_parallel(context, prompts, max_tokens = 8, logprobs = 0)
    logprobs <- lapply(attr(found, "logprobs"), `[[`, "logprob")
    list(text = as.character(found), logprobs = do.call(rbind, logprobs))
  })
  expect_identical(answers$gpu$text, answers$processor$text)
  expect_identical(dim(answers$gpu$logprobs), c(8L, 8L))
  expect_close(answers$gpu$logprobs, answers$processor$logprobs)
})

test_that("labels are scored as on the processor", {
  texts <- c("The weather was great.", "I lost my keys again.", "no")
  labels <- c("positive", "negative", "neutral")
  prompts <- sprintf("Text: %s\nSentiment:", texts)
  logprobs <- on_contexts(\(context) {
    attr(
      classify_parallel(context, prompts, labels, verbosity = -1),
      "logprobs"
    )
  })
  expect_identical(dim(logprobs$gpu), c(3L, 3L))
  expect_close(logprobs$gpu, logprobs$processor)
})

test_that("texts of a data frame are labelled", {
  book <- codebook(
    "Is the review positive or negative?",
    c("positive", "negative")
  )
  reviews <- data.frame(
    text = c("A wonderful film.", "It was a waste of time.")
  )
  probs <- on_contexts(\(context) {
    coded <- annotate_texts(reviews, text, book, context, verbosity = -1)
    expect_true(all(coded$label %in% c("positive", "negative")))
    log(coded$prob)
  })
  expect_close(probs$gpu, probs$processor)
})

test_that("embeddings are those of the processor", {
  texts <- c(
    "The sea is wide.",
    strrep("A train to Paris leaves at noon. ", 4),
    "bread"
  )
  vectors <- on_both("LLAMAHERD_TEST_MINILM", \(model) {
    embed_parallel(model, texts)
  })
  expect_gt(min(rowSums(vectors$gpu * vectors$processor)), 0.9999)
})
