rule <- function(id, labels) {
  list(id = id, predictor = \(prompts, data, spec) rep_len(labels, length(prompts)))
}

test_that("annotations are long and wide", {
  local_fake()
  samples <- data.frame(prompt = c("one", "two"), sample_id = c("s1", "s2"), truth = "x")
  rules <- list(rule("a", c("x", "y")), rule("b", "x"))
  result <- explore(rules, prompts = samples, keep_prompts = TRUE)
  expect_named(result, c("annotations", "matrix"))
  long <- data.frame(
    sample_id = rep(c("s1", "s2"), 2),
    model_id = rep(c("a", "b"), each = 2)
  )
  long$label <- c("x", "y", "x", "x")
  long$truth <- "x"
  long$prompt <- c("one", "two")
  expect_identical(result$annotations, long)
  wide <- data.frame(sample_id = c("s1", "s2"), a = c("x", "y"), truth_a = "x")
  wide$prompt_a <- c("one", "two")
  wide[c("b", "truth_b")] <- "x"
  wide$prompt_b <- c("one", "two")
  expect_identical(result$matrix, wide)
})

test_that("hashes are those that sha256sum computes of the lines", {
  local_fake()
  result <- explore(list(rule("a", c("x", NA))), prompts = c("gr\u00fcn", "two"))
  hashes <- attr(result, "hashes")
  path <- withr::local_tempfile()
  digest <- function(lines) {
    con <- file(path, "wb")
    writeLines(enc2utf8(lines), con, useBytes = TRUE)
    close(con)
    py_call("file_sha256", path)
  }
  expect_identical(hashes$model_id, "a")
  expect_identical(hashes$input_hash, digest(c("gr\u00fcn", "two")))
  expect_identical(hashes$output_hash, digest(c("x", "NA")))
  expect_null(attr(explore(list(rule("a", "x")), prompts = "p", hash = FALSE), "hashes"))
})

test_that("real models answer, with chat and without", {
  local_fake()
  path <- local_model_file()
  result <- explore(c(first = path, second = path), prompts = c("Hello", "You"))
  expect_identical(unique(result$annotations$model_id), c("first", "second"))
  expect_seen("model_start", "'chat': True")
  result <- explore(path, prompts = "Hello", chat_template = FALSE, system_prompt = "Be.")
  expect_identical(result$annotations$label, "Be.\n\nHello!")
  expect_identical(result$annotations$model_id, "model_1")
  model <- model_load(path)
  explore(list(loaded = model), prompts = "Hello", engine = "single")
  expect_seen("context_create", "'n_seq_max': 1")
  expect_s3_class(tokenize(model, "it is not closed") |> as.factor(), "factor")
  spec <- list(model_path = path, generation = list(max_tokens = 7L), n_ctx = 512L)
  explore(list(spec), prompts = "Hello")
  expect_seen("model_start", "'max_tokens': 7")
  expect_seen("context_create", "'n_ctx': 512")
})

test_that("models are kept for later calls on request", {
  local_fake()
  withr::defer(the$explored <- NULL)
  path <- local_model_file()
  explore(path, prompts = "a", reuse_models = TRUE)
  unlink(path)
  expect_silent(explore(path, prompts = "a", reuse_models = TRUE))
})

test_that("a sink gets rows as they come, and nothing is kept", {
  local_fake()
  path <- withr::local_tempfile(fileext = ".csv")
  prompts <- sprintf("p%d", 1:450)
  sizes <- integer()
  write <- annotation_sink_csv(path)
  sink <- function(chunk, model_id) {
    sizes <<- c(sizes, nrow(chunk))
    write(chunk, model_id)
  }
  result <- explore(list(rule("a", "say \"hi\"")), prompts = prompts, sink = sink)
  expect_null(result$annotations)
  expect_null(result$matrix)
  expect_identical(sizes, c(200L, 200L, 50L))
  read <- utils::read.csv(path)
  expect_identical(read$label, rep("say \"hi\"", 450))
  expect_identical(read$sample_id, 1:450)
})

test_that("CSV files are read back as they were", {
  skip_if_no_llamaherd()
  path <- withr::local_tempfile(fileext = ".csv")
  sink <- annotation_sink_csv(path)
  chunk <- data.frame(
    id = c(1, 2.5, NA),
    text = c("a \"b\", c\nd", "gr\u00fcn \U1F600", NA),
    flag = c(TRUE, NA, FALSE)
  )
  expect_identical(sink(chunk, "m"), "m")
  expect_invisible(sink(chunk, "m"))
  expect_identical(utils::read.csv(path, encoding = "UTF-8"), rbind(chunk, chunk))
  sink <- annotation_sink_csv(path, append = TRUE)
  sink(chunk[1, ], "m")
  expect_identical(nrow(utils::read.csv(path)), 7L)
  sink(chunk[0, ], "m")
  expect_identical(nrow(utils::read.csv(path)), 7L)
  annotation_sink_csv(path)(chunk[1, ], "m")
  expect_identical(nrow(utils::read.csv(path)), 1L)
  expect_error(sink("x", "m"), "must be a data frame")
  expect_error(annotation_sink_csv("/no/such/x.csv")(chunk, "m"), "No such file")
})

test_that("templates become sections", {
  local_fake()
  explored <- function(prompts, ...) {
    rules <- list(c(rule("a", "x"), ...))
    explore(rules, prompts = prompts, keep_prompts = TRUE)$annotations
  }
  rows <- explored(list(
    sample_id = c("a", "b"),
    truth = c("x", "y"),
    format = "ignored",
    Task = "Label it.",
    Text = c("One.", "Two."),
    Rules = c("Be brief.", "Be fair.", "Be kind."),
    Shots = data.frame(Text = c("P", "Q"), Label = c("x", "y")),
    Notes = list(More = "much", Less = list(Deep = "down"))
  ))
  expect_identical(rows$sample_id, c("a", "b"))
  expect_identical(rows$truth, c("x", "y"))
  expect_identical(
    strsplit(rows$prompt[[1]], "\n\n", fixed = TRUE)[[1]],
    c(
      "## Task\nLabel it.",
      "## Text\nOne.",
      "## Rules\n- Be brief.\n- Be fair.\n- Be kind.",
      "## Shots\n### Shot 1\n- Text: P\n- Label: x",
      "### Shot 2\n- Text: Q\n- Label: y",
      "## Notes\n### More\nmuch",
      "### Less\n### Deep\ndown"
    )
  )
  rows <- explored(data.frame(Text = c("One.", "Two.")))
  expect_identical(rows$prompt, c("## Text\nOne.", "## Text\nTwo."))
  expect_identical(rows$sample_id, 1:2)
  rows <- explored(\(spec) paste(spec$instruction, "now"), instruction = "Go")
  expect_identical(rows$prompt, "Go now")
})

test_that("a sink writes to the same file after setwd()", {
  skip_if_no_llamaherd()
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "other"))
  withr::local_dir(folder)
  sink <- annotation_sink_csv("rows.csv")
  chunk <- data.frame(sample_id = 1, label = "a")
  sink(chunk, "m")
  setwd("other")
  sink(chunk, "m")
  expect_length(readLines(file.path(folder, "rows.csv")), 3L)
  expect_length(list.files(), 0L)
  # The sink was made before its file existed.
  setwd(folder)
  sink <- annotation_sink_csv("more.csv")
  setwd("other")
  sink(chunk, "m")
  expect_true(file.exists(file.path(folder, "more.csv")))
})
