# Python judges values: each wrong value causes an error that names the argument as R calls it.

data_of <- function() {
  data <- data.frame(text = sprintf("text %d", 1:60), label = c("a", "b", "a"))
  data$prob <- seq(0.5, 0.99, length.out = 60)
  data$code <- ifelse(1:60 <= 30, data$label, NA)
  data
}

test_that("wrong values are named by functions for samples and statistics", {
  local_real()
  data <- data_of()
  gold <- gold_sample(data, 20, text = text, label = label, seed = 1)
  codes <- data.frame(id = gold$ids, code = gold$labels)
  coded <- read_gold(codes, gold)
  parts <- suppressWarnings(gold_split(coded, seed = 1))
  curve <- coverage_curve(data$prob, data$prob > 0.6)
  models <- data.frame(sample_id = rep(1:9, 2), model_id = rep(c("m", "n"), each = 9))
  models$label <- c("a", "b")
  expect_arguments_named(
    gold_size(width = 0.05),
    number = c("width", "share", "level", "accuracy", "kappa"),
    whole = "population",
    choice = "target"
  )
  expect_arguments_named(
    gold_size(compare = 0.05),
    number = c("compare", "differ", "power"),
    whole = "candidates",
    choice = "measure"
  )
  expect_arguments_named(
    gold_sample(data, n = 20, text = "text", label = "label"),
    number = "floor",
    whole = c("n", "seed"),
    flag = "several",
    choice = c("prob", "allocation")
  )
  expect_arguments_named(
    write_gold(gold, path = "h.csv"),
    text = "path",
    flag = c("blind", "shuffle", "bom", "overwrite", "uncoded", "spreadsheet"),
    choice = "delimiter"
  )
  expect_arguments_named(
    gold_split(coded),
    number = c("explore", "select", "evaluate"),
    whole = "seed"
  )
  expect_arguments_named(gold_part(parts), choice = "part")
  expect_arguments_named(
    agreement(data$label, data$code),
    number = "level",
    choice = "scale"
  )
  expect_arguments_named(
    validate(data, "code"),
    number = "level",
    choice = "scale",
    flag = "several"
  )
  expect_arguments_named(
    estimate(data, "code", prob = "simple", outcome = "a"),
    number = "level",
    choice = c("target", "simultaneous", "methods"),
    flag = "several"
  )
  expect_arguments_named(coverage_curve(data$prob, data$prob > 0.6), number = "level")
  expect_arguments_named(
    texts_for_people(curve, accuracy = 0.9, prob = data$prob),
    number = "accuracy",
    flag = "sure"
  )
  expect_arguments_named(
    recalibrate(transform(data, p_a = prob, p_b = 1 - prob), "code", prob = "simple"),
    number = "level",
    whole = c("n_folds", "seed")
  )
  expect_arguments_named(intercoder_reliability(models), choice = "method")
  expect_arguments_named(compute_confusion_matrices(models), flag = "pairwise")
})

test_that("wrong values are named by functions for codebooks and files", {
  local_real()
  book <- codebook("Is it?", c("a", "b"))
  text <- data.frame(text = "x")
  file <- withr::local_tempfile(lines = "x")
  new <- withr::local_tempfile()
  expect_arguments_named(
    codebook("Is it?", c("a", "b")),
    text = c("question", "text_role", "answer_role", "language", "system"),
    choice = "type"
  )
  expect_arguments_named(codebook("Is it?", "a", type = "spans"), whole = "max_spans")
  expect_arguments_named(
    write_codebook(book, path = "book.yaml"),
    text = "path",
    flag = "overwrite"
  )
  expect_arguments_named(read_codebook(path = "book.yaml"), text = "path")
  expect_arguments_named(
    number_scale(low = 0, high = 9),
    number = c("low", "high", "step")
  )
  expect_arguments_named(ready_codebook(name = "stance"), text = c("name", "target"))
  expect_arguments_named(prompt_preview(book, text = "x"), text = "text", flag = "chat")
  expect_arguments_named(llamaherd_models(), number = "memory_gb")
  expect_arguments_named(
    code_texts(text, book, "anna", path = new, browser = FALSE),
    text = c("host", "path", "tie_coder"),
    whole = c("seed", "port"),
    flag = "keys"
  )
  expect_arguments_named(
    model_optimize(path = file),
    text = "path",
    number = "max_kl",
    whole = "n_threads"
  )
  expect_arguments_named(
    model_load(model_path = file),
    text = c("cache_dir", "hf_token", "model_path"),
    flag = c("check_memory", "optimize"),
    whole = "n_gpu_layers"
  )
  expect_arguments_named(journal_read(path = "x.sqlite"), text = "path")
  expect_arguments_named(list_cached_models(), text = "cache_dir")
  expect_arguments_named(reproduce(path = "x.html"), text = "path")
  expect_arguments_named(
    server_start(file),
    text = c("memory", "name"),
    flag = "stay",
    whole = c("port", "n_ctx", "n_seq_max", "n_threads", "n_gpu_layers")
  )
  expect_arguments_named(with_chat_date(date = "2026-01-31", 1), text = "date")
})
