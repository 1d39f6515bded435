# As test-checks.R, of calls that run a model.

test_that("wrong values are named by calls of a model", {
  context <- local_model_context()
  model <- context$model
  data <- data.frame(text = sprintf("text %d", 1:4))
  book <- codebook("Is it?", c("a", "b"))
  talk <- chat(context)
  expect_arguments_named(
    generate_parallel(context, c("a", "b"), max_tokens = 2L),
    whole = c("max_tokens", "top_k", "repeat_last_n", "seed", "n", "retries", "logprobs"),
    number = c("top_p", "temperature", "penalty_repeat", "min_p", "typical_p"),
    flag = c("progress", "clean", "ignore_eos", "parse_special", "chat", "strict"),
    text = "journal",
    choice = "on_error"
  )
  expect_arguments_named(
    generate(context, "a", max_tokens = 2L, chat = TRUE),
    text = c("system", "template", "prefix"),
    flag = c("merge_system", "show_schema", "dotted", "hash"),
    whole = c("verbosity", "mirostat", "dry_allowed_length", "min_tokens")
  )
  expect_arguments_named(
    classify_parallel(context, "a", c("a", "b")),
    choice = c("normalize", "on_error"),
    text = c("pmi_prompt", "journal"),
    flag = c("space", "progress", "parse_special"),
    whole = c("n_thoughts", "seed", "verbosity")
  )
  expect_arguments_named(
    score_parallel(context, "a", "x"),
    flag = c("space", "parse_special"),
    choice = "on_error"
  )
  expect_arguments_named(perplexity(context, "a b c"), choice = "on_error")
  expect_arguments_named(
    embed_parallel(model, "a"),
    choice = "pooling",
    flag = c("normalize", "truncate", "deterministic", "progress"),
    whole = c("n_threads", "verbosity")
  )
  expect_arguments_named(
    annotate_texts(data, text, book, context),
    choice = c("method", "calibrate", "normalize", "split", "on_error"),
    flag = c("chat", "merge_system", "distribution", "progress", "evidence"),
    whole = c("n_thoughts", "part_tokens", "until", "seed", "max_tokens", "verbosity"),
    number = c("unsure", "temperature"),
    text = c("template", "date", "journal")
  )
  expect_arguments_named(
    compare_pairs(letters[1:5], context = context, question = "Which?"),
    whole = c("n_pairs", "seed", "n_thoughts", "verbosity"),
    choice = "design",
    number = "level",
    text = c("question", "layout", "journal"),
    flag = "progress"
  )
  expect_arguments_named(
    robustness(data, text, book, context, orders = 1),
    whole = c("orders", "n_texts", "seed", "max_tokens", "part_tokens", "n_thoughts"),
    flag = c("crossed", "chat"),
    choice = c("method", "calibrate", "normalize", "split"),
    number = "temperature"
  )
  expect_arguments_named(
    context_create(model),
    whole = c("n_ctx", "n_threads", "n_seq_max", "n_batch", "n_ubatch", "verbosity"),
    choice = c("kv_layout", "type_k", "rope_scaling_type"),
    flag = c("flash_attn", "offload_kqv", "swa_full", "keep_prefixes", "deterministic"),
    number = "rope_freq_base"
  )
  expect_arguments_named(
    context_create(model, cluster = "local"),
    whole = "n_actors",
    number = "num_cpus"
  )
  expect_arguments_named(tokenize(model, "a"), flag = c("add_special", "parse_special"))
  expect_arguments_named(
    detokenize(model, 1:3),
    flag = c("remove_special", "unparse_special")
  )
  expect_arguments_named(
    apply_chat_template(model, "a"),
    flag = "add_assistant",
    text = c("template", "system")
  )
  expect_arguments_named(
    chat(context),
    text = c("system", "template", "prefix"),
    flag = c("echo", "merge_system"),
    whole = c("max_tokens", "seed"),
    number = "temperature"
  )
  expect_arguments_named(talk$ask(text = "a"), text = "text", whole = "max_tokens")
  expect_arguments_named(talk$fork(n = 2), whole = "n")
  expect_arguments_named(talk$system(text = "a"), text = "text")
})
