# Python judges values: each wrong value causes an error that names the argument as R calls it.

wrong <- list(
  flag = list(NA, c(TRUE, FALSE)),
  number = list("x", data.frame(a = 1)),
  whole = list(NA, 1.5),
  text = list(3, c("a", "b")),
  choice = list(NA, "nope")
)

# Adds each wrong value of a kind to a call, for each of the named arguments.
expect_named <- function(call, ..., env = parent.frame()) {
  kinds <- list(...)
  for (kind in names(kinds)) {
    for (arg in kinds[[kind]]) {
      for (value in wrong[[kind]]) {
        tried <- call
        tried[arg] <- list(value)
        info <- deparse1(tried)
        cnd <- tryCatch(suppressMessages(eval(tried, env)), error = identity)
        expect_s3_class(cnd, "llamaherd_error_argument")
        expect_identical(cnd$argument, arg, info = info)
        expect_match(conditionMessage(cnd), arg, fixed = TRUE, info = info)
      }
    }
  }
}

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
  expect_named(
    quote(gold_size(width = 0.05)),
    number = c("width", "share", "level", "accuracy", "kappa"),
    whole = "population",
    choice = "target"
  )
  expect_named(
    quote(gold_size(compare = 0.05)),
    number = c("compare", "differ", "power"),
    whole = "candidates",
    choice = "measure"
  )
  expect_named(
    quote(gold_sample(data, n = 20, text = "text", label = "label")),
    number = "floor",
    whole = c("n", "seed"),
    flag = "several",
    choice = c("prob", "allocation")
  )
  expect_named(
    quote(write_gold(gold, path = "h.csv")),
    text = "path",
    flag = c("blind", "shuffle", "bom", "overwrite", "uncoded", "spreadsheet"),
    choice = "delimiter"
  )
  expect_named(
    quote(gold_split(coded)),
    number = c("explore", "select", "evaluate"),
    whole = "seed"
  )
  expect_named(quote(gold_part(parts)), choice = "part")
  expect_named(
    quote(agreement(data$label, data$code)),
    number = "level",
    choice = "scale"
  )
  expect_named(
    quote(validate(data, "code")),
    number = "level",
    choice = "scale",
    flag = "several"
  )
  expect_named(
    quote(estimate(data, "code", prob = "simple", outcome = "a")),
    number = "level",
    choice = c("target", "simultaneous", "methods"),
    flag = "several"
  )
  expect_named(quote(coverage_curve(data$prob, data$prob > 0.6)), number = "level")
  expect_named(
    quote(texts_for_people(curve, accuracy = 0.9, prob = data$prob)),
    number = "accuracy",
    flag = "sure"
  )
  expect_named(
    quote(recalibrate(
      transform(data, p_a = prob, p_b = 1 - prob),
      "code",
      prob = "simple"
    )),
    number = "level",
    whole = c("n_folds", "seed")
  )
  expect_named(quote(intercoder_reliability(models)), choice = "method")
  expect_named(quote(compute_confusion_matrices(models)), flag = "pairwise")
})

test_that("wrong values are named by functions for codebooks and files", {
  local_real()
  book <- codebook("Is it?", c("a", "b"))
  text <- data.frame(text = "x")
  file <- withr::local_tempfile(lines = "x")
  new <- withr::local_tempfile()
  expect_named(
    quote(codebook("Is it?", c("a", "b"))),
    text = c("question", "text_role", "answer_role", "language", "system"),
    choice = "type"
  )
  expect_named(quote(codebook("Is it?", "a", type = "spans")), whole = "max_spans")
  expect_named(
    quote(write_codebook(book, path = "book.yaml")),
    text = "path",
    flag = "overwrite"
  )
  expect_named(quote(read_codebook(path = "book.yaml")), text = "path")
  expect_named(quote(number_scale(low = 0, high = 9)), number = c("low", "high", "step"))
  expect_named(quote(ready_codebook(name = "stance")), text = c("name", "target"))
  expect_named(quote(prompt_preview(book, text = "x")), text = "text", flag = "chat")
  expect_named(quote(llamaherd_models()), number = "memory_gb")
  expect_named(
    quote(code_texts(text, book, "anna", path = new, browser = FALSE)),
    text = c("host", "path", "tie_coder"),
    whole = c("seed", "port"),
    flag = "keys"
  )
  expect_named(
    quote(model_optimize(path = file)),
    text = "path",
    number = "max_kl",
    whole = "n_threads"
  )
  expect_named(
    quote(model_load(model_path = file)),
    text = c("cache_dir", "hf_token", "model_path"),
    flag = c("verify_integrity", "check_memory", "optimize"),
    whole = "n_gpu_layers"
  )
  expect_named(quote(journal_read(path = "x.sqlite")), text = "path")
  expect_named(quote(list_cached_models()), text = "cache_dir")
  expect_named(quote(reproduce(path = "x.html")), text = "path")
  expect_named(
    quote(server_start(file)),
    text = c("memory", "name"),
    flag = "stay",
    whole = c("port", "n_ctx", "n_seq_max", "n_threads", "n_gpu_layers")
  )
  expect_named(quote(with_chat_date(date = "2026-01-31", 1)), text = "date")
})

test_that("wrong values are named by calls of a model", {
  context <- local_model_context()
  model <- context$model
  data <- data_of()[1:4, ]
  book <- codebook("Is it?", c("a", "b"))
  talk <- chat(context)
  expect_named(
    quote(generate_parallel(context, c("a", "b"), max_tokens = 2L)),
    whole = c("max_tokens", "top_k", "repeat_last_n", "seed", "n", "retries", "logprobs"),
    number = c("top_p", "temperature", "penalty_repeat", "min_p", "typical_p"),
    flag = c("progress", "clean", "ignore_eos", "parse_special", "chat", "strict"),
    text = "journal",
    choice = "on_error"
  )
  expect_named(
    quote(generate(context, "a", max_tokens = 2L, chat = TRUE)),
    text = c("system", "template", "prefix"),
    flag = c("merge_system", "show_schema", "dotted", "hash"),
    whole = c("verbosity", "mirostat", "dry_allowed_length", "min_tokens")
  )
  expect_named(
    quote(classify_parallel(context, "a", c("a", "b"))),
    choice = c("normalize", "on_error"),
    text = c("pmi_prompt", "journal"),
    flag = c("space", "progress", "parse_special"),
    whole = c("n_thoughts", "seed", "verbosity")
  )
  expect_named(
    quote(score_parallel(context, "a", "x")),
    flag = c("space", "parse_special"),
    choice = "on_error"
  )
  expect_named(quote(perplexity(context, "a b c")), choice = "on_error")
  expect_named(
    quote(embed_parallel(model, "a")),
    choice = "pooling",
    flag = c("normalize", "truncate", "deterministic", "progress"),
    whole = c("n_threads", "verbosity")
  )
  expect_named(
    quote(annotate_texts(data, text, book, context)),
    choice = c("method", "calibrate", "normalize", "split", "on_error"),
    flag = c("chat", "merge_system", "distribution", "progress", "evidence"),
    whole = c("n_thoughts", "part_tokens", "until", "seed", "max_tokens", "verbosity"),
    number = c("unsure", "temperature"),
    text = c("template", "date", "journal")
  )
  expect_named(
    quote(compare_pairs(letters[1:5], context = context, question = "Which?")),
    whole = c("n_pairs", "seed", "n_thoughts", "verbosity"),
    choice = "design",
    number = "level",
    text = c("question", "layout", "journal"),
    flag = "progress"
  )
  expect_named(
    quote(robustness(data, text, book, context, orders = 1)),
    whole = c("orders", "n_texts", "seed", "max_tokens", "part_tokens", "n_thoughts"),
    flag = c("crossed", "chat"),
    choice = c("method", "calibrate", "normalize", "split"),
    number = "temperature"
  )
  expect_named(
    quote(context_create(model)),
    whole = c("n_ctx", "n_threads", "n_seq_max", "n_batch", "n_ubatch", "verbosity"),
    choice = c("kv_layout", "type_k", "rope_scaling_type"),
    flag = c("flash_attn", "offload_kqv", "swa_full", "keep_prefixes", "deterministic"),
    number = "rope_freq_base"
  )
  expect_named(
    quote(context_create(model, cluster = "local")),
    whole = "n_actors",
    number = "num_cpus"
  )
  expect_named(quote(tokenize(model, "a")), flag = c("add_special", "parse_special"))
  expect_named(
    quote(detokenize(model, 1:3)),
    flag = c("remove_special", "unparse_special")
  )
  expect_named(
    quote(apply_chat_template(model, "a")),
    flag = "add_assistant",
    text = c("template", "system")
  )
  expect_named(
    quote(chat(context)),
    text = c("system", "template", "prefix"),
    flag = c("echo", "merge_system"),
    whole = c("max_tokens", "seed"),
    number = "temperature"
  )
  expect_named(quote(talk$ask(text = "a")), text = "text", whole = "max_tokens")
  expect_named(quote(talk$fork(n = 2)), whole = "n")
  expect_named(quote(talk$system(text = "a")), text = "text")
})
