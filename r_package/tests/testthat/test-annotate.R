book_of <- function(...) codebook("Which?", c(yes = "", n = ""), ...)
coded_of <- function(context, data = data_of(), ...) {
  annotate_texts(data, text, book_of(), context, ..., verbosity = -1)
}
texts <- c("x", NA, "fail {it} did", "y")
data_of <- function(make = data.frame) make(id = c(3, 1, 2, 9), text = texts)

test_that("columns are added, and all else stays", {
  context <- local_context()
  coded <- coded_of(context)
  expect_s3_class(coded, c("llamaherd_coded", "data.frame"), exact = TRUE)
  new <- c("label", "prob", "margin", "entropy", "coverage", "p_yes", "p_n", "error")
  expect_named(coded, c("id", "text", new))
  expect_identical(coded$id, c(3, 1, 2, 9))
  expect_identical(coded$label, factor(c("yes", NA, NA, "yes"), levels = c("yes", "n")))
  expect_identical(coded$prob, c(0.5, NA, NA, 0.5))
  expect_identical(coded$error, c(NA, NA, "{it} did", NA))
  coding <- attr(coded, "llamaherd")
  expect_identical(coding$label, "label")
  expect_identical(coding$text, "text")
  expect_identical(coding$names, c("yes", "n"))
  expect_identical(coding$probs, c(yes = "p_yes", n = "p_n"))
  expect_identical(coding$run$model$sha256, "abc")
  expect_identical(jsonlite::parse_json(coding$run_json), coding$run)
  expect_s3_class(coding$codebook, "llamaherd_codebook")
  expect_s3_class(coding$stats, "llamaherd_stats")
})

test_that("a column of texts with attributes is no expression", {
  context <- local_context()
  texts <- list(
    structure("x", label = "Speech", format.spss = "A100"),
    I("x"),
    c(a = "x")
  )
  for (text in texts) {
    data <- data.frame(n = 1)
    data$t <- text
    coded <- annotate_texts(data, t, book_of(), context, verbosity = -1)
    expect_false("coded_text" %in% names(coded))
    expect_identical(coded$t, data$t)
  }
})

test_that("texts may be an expression, a name, or a factor", {
  context <- local_context()
  arrives <- function(sent, text, data = data.frame(a = c("x", NA), b = c("y", "z"))) {
    annotate_texts(data, {{ text }}, book_of(), context, verbosity = -1)
    expect_seen("annotate_start", sent)
  }
  arrives("['x', None]", a)
  arrives("['y', 'z']", "b")
  arrives("['y !', 'z !']", paste(b, "!"))
  arrives("['y', 'z']", .data$b)
  arrives("['q']", a, data.frame(a = factor("q")))
  arrives("[None]", a, data.frame(a = NA))
})

test_that("settings arrive", {
  context <- local_context()
  annotate_texts(
    data.frame(t = "x"),
    t,
    book_of(),
    context,
    calibrate = "batch",
    split = "mean",
    part_tokens = 9,
    journal = TRUE,
    seed = 4e9,
    chat = TRUE,
    until = 60,
    embeddings = "e.gguf",
    unsure = 0.2
  )
  expect_seen(
    "annotate_start",
    "'calibrate': 'batch'",
    "'split': 'mean', 'part_tokens': 9, 'journal': True",
    "'seed': 4000000000.0",
    "'until': 60, 'embeddings': 'e.gguf', 'unsure': 0.2",
    "'chat': True",
    "'versions': {'R': '"
  )
})

test_that("columns have the names that are wanted", {
  context <- local_context()
  named <- function(columns, ...) {
    data <- data.frame(text = "x")
    names(annotate_texts(data, text, book_of(), context, columns = columns, ...))[-1]
  }
  expect_identical(named("my_", method = "generate"), c("my_label", "my_error"))
  expect_identical(
    named(c(label = "tone", p_ = "q_", p_n = "no", margin = NA, error = "why")),
    c("tone", "prob", "entropy", "coverage", "q_yes", "no", "why")
  )
  expect_identical(
    named(c(label = NA, p_ = NA), method = "classify"),
    c("prob", "margin", "entropy", "coverage", "error")
  )
})

test_that("no rows, and all kinds of labels", {
  context <- local_context()
  none <- annotate_texts(data_of()[0, ], text, book_of(), context)
  some <- coded_of(context)
  expect_identical(lapply(none, class), lapply(some, class))
  expect_identical(nrow(none), 0L)
  made_with <- \(...) {
    annotate_texts(data.frame(t = c("x", NA)), t, codebook(...), context)
  }
  coded <- made_with("How?", c("lo", "hi"), type = "ordinal")
  expect_true(is.ordered(coded$label))
  coded <- made_with("How much?", number_scale(-1, 1, 0.5))
  expect_identical(coded$label, c(-1, NA))
  columns <- c(
    "t",
    "label",
    "mean",
    "sd",
    "prob",
    "margin",
    "entropy",
    "coverage",
    "error"
  )
  expect_named(coded, columns)
  coded <- made_with("How?", 2:5, type = "ordinal")
  expect_identical(coded$label, c(2L, NA))
  coded <- made_with("Which?", c("a", "b"), type = "multiple")
  expect_identical(coded$label, c("a", NA))
  expect_named(coded, c("t", "label", "coverage", "p_a", "p_b", "error"))
  coded <- made_with("What?", schema = type_object(a = type_integer()))
  expect_named(coded, c("t", "a", "error"))
  expect_identical(coded$a, c(1L, NA))
})

test_that("tibbles and groups stay, and verbs keep or drop what was coded", {
  skip_if_not_installed("dplyr")
  skip_if_not_installed("tibble")
  context <- local_context()
  data <- dplyr::group_by(data_of(tibble::tibble), id)
  coded <- coded_of(context, data)
  expect_s3_class(
    coded,
    c("llamaherd_coded", "grouped_df", "tbl_df", "tbl", "data.frame"),
    exact = TRUE
  )
  expect_identical(dplyr::group_vars(coded), "id")
  coded <- dplyr::ungroup(coded)
  kept <- list(
    coded,
    dplyr::filter(coded, id > 2),
    dplyr::mutate(coded, z = 1),
    dplyr::arrange(coded, id),
    dplyr::group_by(coded, id),
    coded[1:2, ]
  )
  for (data in kept) {
    expect_s3_class(data, "llamaherd_coded")
  }
  few <- dplyr::select(coded, text, label, p_n)
  expect_identical(attr(few, "llamaherd")$probs, c(n = "p_n"))
  gone <- list(
    dplyr::select(coded, text),
    dplyr::count(coded, label),
    dplyr::summarise(coded, n = dplyr::n()),
    coded["id"],
    tibble::as_tibble(coded),
    as.data.frame(coded)
  )
  for (frame in gone) {
    expect_false(inherits(frame, "llamaherd_coded"))
    expect_null(attr(frame, "llamaherd"))
  }
  expect_type(coded[["label"]], "integer")
  expect_identical(nrow(rbind(coded, coded)), 8L)
  again <- coded_of(context, coded, columns = "b_")
  expect_identical(attr(again, "llamaherd")$label, "b_label")
})

test_that("rows of another run, and edited ones, are not taken for coded", {
  context <- local_context()
  coded <- coded_of(context)
  other <- annotate_texts(data.frame(id = 5, text = "z"), text, book_of(), context)
  plain <- function(x) {
    expect_warning(data <- x, class = "llamaherd_warning_record")
    expect_s3_class(data, "data.frame", exact = TRUE)
  }
  kept <- function(x) expect_s3_class(x, "llamaherd_coded")
  plain(`$<-`(coded, "label", value = c("n", as.character(coded$label)[-1])))
  plain(`[<-`(coded, "text", value = toupper(coded$text)))
  plain(`[[<-`(coded, 4, "label", value = "n"))
  plain(rbind(coded, other))
  plain(merge(coded[-3, ], data.frame(id = 8, text = "w"), all = TRUE))
  kept(replace(coded, "label", list(as.character(coded$label))))
  kept(`[[<-`(coded, "prob", value = 1))
  new <- coded
  new$party <- "A"
  new[1, "prob"] <- 0
  expect_identical(attr(kept(new), "llamaherd"), attr(coded, "llamaherd"))
  skip_if_not_installed("dplyr")
  plain(dplyr::bind_rows(coded, other))
  plain(dplyr::bind_rows(other, coded))
  plain(dplyr::mutate(coded, label = c("yes", NA, NA, "n")))
  kept(dplyr::bind_rows(coded[3:4, ], coded[3, ]))
  kept(dplyr::mutate(coded, label = factor(label, levels = c("n", "yes"))))
  kept(dplyr::left_join(coded, data.frame(id = 1, party = "A"), by = "id"))
  expect_warning(
    grouped <- dplyr::group_by(coded, label = "all"),
    class = "llamaherd_warning_record"
  )
  expect_false(inherits(grouped, "llamaherd_coded"))
})

test_that("the record stays with coded rows in all verbs, and leaves with other rows", {
  context <- local_context()
  data <- data_of()
  data$text[[2]] <- "z"
  data$party <- c("A", "B", "A", "B")
  coded <- coded_of(context, data)
  pieces <- split(coded, coded$party)
  kept <- list(
    cbind(coded, z = 1),
    transform(coded, z = id * 2),
    within(coded, z <- 1),
    subset(coded, id > 1),
    coded[order(coded$text), ],
    unique(coded),
    merge(coded, data.frame(id = 1:4, z = 1)),
    rbind(pieces[[1]], pieces[[2]]),
    do.call(rbind, pieces)
  )
  new <- data.frame(id = 9L, text = "new", label = "yes", party = "A")
  row <- nrow(coded) + 1L
  lost <- list(
    quote(`[<-`(coded, row, "text", value = "new")),
    quote(coded[row, ]),
    quote(merge(coded, new, all = TRUE))
  )
  if (requireNamespace("tibble", quietly = TRUE)) {
    # tibble copies the class and the record in C.
    more <- tibble::add_row(coded, text = "new", label = "yes")
    expect_error(report(more, tempfile(fileext = ".html")), "^Row 5 of `x` was not coded")
  }
  if (requireNamespace("dplyr", quietly = TRUE)) {
    grouped <- dplyr::group_by(coded, party)
    rows <- dplyr::rowwise(coded)
    verbs <- list(
      \(x) dplyr::mutate(x, z = 1),
      \(x) dplyr::filter(x, id > 1),
      \(x) dplyr::arrange(x, id),
      \(x) dplyr::slice(x, 1),
      \(x) dplyr::rename(x, topic = label),
      \(x) dplyr::select(x, party, id, text, label),
      \(x) dplyr::left_join(x, data.frame(id = 1L, z = 1), by = "id")
    )
    for (verb in verbs) {
      kept <- c(kept, list(dplyr::ungroup(verb(grouped)), dplyr::ungroup(verb(rows))))
    }
    kept <- c(kept, list(dplyr::bind_rows(pieces), dplyr::bind_cols(coded, z = 1:4)))
    lost <- c(lost, quote(dplyr::bind_rows(coded, new)))
  }
  if (requireNamespace("tidyr", quietly = TRUE)) {
    kept <- c(
      kept,
      list(tidyr::drop_na(coded, text), tidyr::unite(coded, "both", id, party))
    )
    lost <- c(lost, quote(tidyr::complete(coded, id = 1:9)))
  }
  for (data in kept) {
    expect_s3_class(data, "llamaherd_coded")
  }
  for (call in lost) {
    expect_warning(
      data <- eval(call),
      class = "llamaherd_warning_record",
      info = deparse(call)
    )
    expect_false(inherits(data, "llamaherd_coded"))
    expect_error(report(data, tempfile(fileext = ".html")), "no record")
  }
  for (call in expression(data.matrix(coded), format(coded), unique(coded))) {
    expect_no_warning(eval(call))
  }
})

test_that("rows that the record does not know are refused, however they were added", {
  local_real()
  coded <- data.frame(text = c("a", "b", "c"), label = c("x", "y", "x"), human = "x")
  record <- list(text = "text", label = "label", needs = c("label", "text"))
  record$codebook <- codebook("Is it?", c("x", "y"))
  record$names <- c("x", "y")
  record$keys <- row_keys(coded[record$needs])
  more <- rbind(coded, data.frame(text = "new", label = "x", human = "x"))
  class(more) <- c("llamaherd_coded", "data.frame")
  attr(more, "llamaherd") <- record
  expect_errors(
    "^Row 4 of `" = validate(more, "human"),
    "^Row 4 of `" = estimate(more, "human", prob = "simple"),
    "^Row 4 of `" = gold_sample(more, 2),
    "^Row 4 of `" = plot(more),
    "^Row 4 of `" = report(more, tempfile(fileext = ".html")),
    "^Row 4 of `" = recalibrate(more, "human", prob = "simple")
  )
})

test_that("data without their record are refused where the record would change a result", {
  local_real()
  common <- data.frame(coverage = 1, error = NA, text = c("t", "u"), human = c("a", "b"))
  several <- cbind(label = c("a; b", "a"), p_a = 0.9, p_b = c(0.8, 0.1), common)
  expect_error(validate(several, "human"), "set `several`")
  expect_error(estimate(several, "human", prob = "simple"), "set `several`")
  expect_error(gold_sample(several, 1), "set `several`")
  expect_no_error(validate(several, "human", several = TRUE))
  scale <- cbind(label = 1:2, mean = 1, sd = 1, prob = 1, margin = 1, entropy = 0, common)
  scale$human <- c(1, 2)
  expect_error(validate(scale, "human"), "set `scale`")
  expect_error(estimate(scale, "human", prob = "simple"), "set `outcome`")
  expect_identical(validate(scale, "human", scale = "interval")$scale, "interval")
})

test_that("what the columns are is known by their new names", {
  context <- local_context()
  coded <- coded_of(context)
  names(coded)[names(coded) == "label"] <- "topic"
  expect_s3_class(coded, "llamaherd_coded")
  expect_identical(attr(coded, "llamaherd")$label, "topic")
  expect_identical(attr(coded, "llamaherd")$columns[["label"]], "topic")
  path <- withr::local_tempfile(fileext = ".html")
  report(coded[1, ], path)
  expect_identical(jsonlite::read_json(path)[[1]]$labels, list("yes"))
  expect_false(inherits(stats::setNames(coded, seq_along(coded))[1], "llamaherd_coded"))
  skip_if_not_installed("dplyr")
  new <- dplyr::rename(coded, said = topic, speech = text, sure = p_yes)
  coding <- attr(new, "llamaherd")
  expect_identical(coding$probs, c(yes = "sure", n = "p_n"))
  expect_identical(
    coded_columns(new)[c("label", "text")],
    list(label = "said", text = "speech")
  )
  expect_identical(coding$needs, c("said", "speech"))
  few <- dplyr::select(coded, speech = text, topic)
  expect_identical(attr(few, "llamaherd")$text, "speech")
  expect_identical(all_probs(new)[["sure"]], coded$p_yes)
})

test_that("rows of a hundred thousand are recognised", {
  n <- 100000L
  data <- data.frame(text = paste("text", seq_len(n)), label = rep(c("a", "b"), n / 2))
  some <- data[rev(seq(1L, n, by = 7L)), ]
  expect_identical(match_rows(some, data), rev(seq(1L, n, by = 7L)))
  wrong <- replace(some, "label", list(rev(some$label)))
  wrong$label[[1]] <- NA
  expect_identical(match_rows(wrong, data)[[1]], NA_integer_)
})

test_that("names of new columns are checked", {
  local_real()
  roles <- c("label", "prob", "p_yes", "error")
  named <- function(columns, existing = "text") {
    new_names(roles, columns, existing)
  }
  expect_identical(named(NULL), rlang::set_names(roles))
  expect_identical(named("x_"), rlang::set_names(paste0("x_", roles), roles))
  expect_identical(
    named(c(label = "Stra\u00dfe", p_ = "q_", error = NA)),
    c(label = "Stra\u00dfe", prob = "prob", p_yes = "q_yes")
  )
  expect_identical(named(c(p_ = NA)), rlang::set_names(roles[-3]))
  expect_refused({
    named(NULL, c("text", "prob"))
    named(c(x = "y"))
    named(c(prob = "label"))
    named(NA_character_)
    named(c("a", "b"))
  })
})

test_that("coded data print", {
  context <- local_context()
  coded <- annotate_texts(
    data_of()[c(1, 4), ],
    text,
    book_of(),
    context,
    columns = c(p_ = NA)
  )
  expect_page(print(coded[c("text", "label", "prob")]))
})

test_that("failures are one warning, or an error with what was coded", {
  context <- local_context()
  expect_page(invisible(annotate_texts(data_of(), text, book_of(), context)))
  stopped <- quote(annotate_texts(data_of(), text, book_of(), context, on_error = "stop"))
  condition <- rlang::catch_cnd(eval(stopped))
  expect_s3_class(condition, "llamaherd_error_generation")
  expect_s3_class(condition$results, "llamaherd_coded")
  expect_match(conditionMessage(condition), "Row 3 failed: {it} did", fixed = TRUE)
})

test_that("Python names wrong values of options", {
  local_real()
  book <- book_of()
  coded_with <- function(...) {
    env <- rlang::current_env()
    defaults <- lapply(formals(annotate_texts)[names(annotate_kinds)], eval)
    list2env(utils::modifyList(defaults, list(...)), env)
    py_call("annotate_roles", as_python(book), coding_options(env), error_call = env)
  }
  expect_true("label" %in% as_text(coded_with()))
  expect_refused({
    coded_with(method = "ask")
    coded_with(split = "second")
    coded_with(seed = -1)
    coded_with(until = 3)
    coded_with(unsure = Inf)
  })
})

test_that("variants are compared", {
  context <- local_model_context()
  short <- codebook("Short?", c("n", "yes"))
  trial <- robustness(
    data_of()[-3, ],
    text,
    list(long = book_of(), short),
    context,
    orders = list(c("n", "yes"))
  )
  expect_page(trial)
  expect_identical(trial$summary$variant[1:2], c("codebook long", "codebook 2"))
  expect_identical(trial$labels$row, c(1L, 3L))
  expect_s3_class(trial$labels[["codebook long"]], "factor")
  sent <- the$module$seen("call_start")
  expect_match(sent, "'orders': [['n', 'yes']], 'seeds': []", fixed = TRUE)
  expect_match(sent, "'n_texts': None", fixed = TRUE)
  expect_refused({
    robustness(data_of(), text, "book", context)
    robustness(data_of(), text, book_of(), list(context, 1))
    robustness(data_of(), text, book_of(), context, columns = "x")
  })
})

test_that("variants start from how labels were made", {
  context <- local_model_context()
  other <- codebook("Other?", c("yes", "n"))
  coded <- coded_of(context)
  trial <- robustness(coded, codebooks = other, contexts = context)
  expect_identical(trial$summary$variant, c("codebook coded", "codebook 1"))
  expect_seen("call_start", "'run': '{\"started\"")
  # Texts that were not labelled, or a data frame without the record of its labels.
  books <- list(book_of(), other)
  others <- list(
    robustness(cbind(coded, words = coded$text), words, books, context),
    robustness(as.data.frame(coded), text, books, context)
  )
  for (plain in others) {
    expect_identical(plain$summary$variant, c("codebook 1", "codebook 2"))
  }
  expect_errors(
    "`text` must" = robustness(data_of(), codebooks = books, contexts = context),
    "`contexts` must" = robustness(coded, codebooks = books)
  )
})

test_that("labels that say little are noted", {
  context <- local_context()
  data <- data.frame(text = sprintf("t%d", 1:20))
  coded <- \(data, ...) annotate_texts(data, text, book_of(), context, ...)
  expect_message(coded(data), "all {alike}", fixed = TRUE)
  expect_message(coded(data[1:19, , drop = FALSE]), NA)
  expect_message(coded(data, verbosity = -1), NA)
})

test_that("each variant has an estimate by the same codes", {
  context <- local_model_context()
  data <- data.frame(text = c("a", NA, letters[2:5]), label = "other", x = 1:6)
  gold <- gold_sample(data["text"], 4, text = text)
  gold <- read_gold(data.frame(id = gold$ids, code = "yes"), gold)
  books <- list(book_of(), codebook("Other?", c("yes", "n")))
  run <- \(...) robustness(data, text, books, context, ...)
  trial <- run(gold = gold, outcome = "yes")
  rows <- trial$estimates
  expect_identical(rows$variant, c("codebook 1", "codebook 2"))
  expect_identical(unique(rows$method), "dsl")
  expect_identical(rows$estimate[[1]], rows$estimate[[2]])
  seen <- the$module$seen("estimate")
  expect_null(run()$estimates)
  formula <- label == "yes" ~ z
  # One warning names all variants.
  warning <- "2 warnings:.*1\" has no estimate.*2\" has no estimate"
  expect_warning(run(gold = gold, formula = formula), warning)
  expect_error(run(outcome = "yes"), "which need `gold`")
  expect_error(run(gold = 1), "`gold` must be")
  one <- gold_sample(data["text"], 4, text = text, seed = 1)
  one <- read_gold(data.frame(id = one$ids[[1]], code = "yes"), one)
  expect_error(run(gold = one), "codes of at least two")
  data <- data[-1, ]
  expect_error(run(gold = gold), "`gold` was drawn from other data")
})

test_that("a journal is named at the beginning and where Ctrl-C ends the call", {
  context <- local_context()
  withr::local_dir(withr::local_tempdir())
  book <- book_of()
  data <- data.frame(text = "x")
  expect_message(
    annotate_texts(data, text, book, context, journal = TRUE),
    paste0(basename(getwd()), "[/\\\\][0-9a-f]+-fake.journal")
  )
  expect_message(annotate_texts(data, text, book, context, journal = "a.journal"), NA)
  messages <- capture.output(type = "message", {
    withRestarts(
      interrupt("Interrupted: 1 of 2 texts coded.", data, 0L, "/tmp/a.journal"),
      abort = \() NULL
    )
  })
  journal <- paste("continues the run:", full_path("/tmp/a.journal"))
  expect_match(messages, journal, fixed = TRUE, all = FALSE)
})

test_that("hints lead to what was meant", {
  skip_if_no_llamaherd()
  expect_error(codebook("What?", list(a = "one", b = "two")), "unlist[(][)]")
  frame <- data.frame(label = "a", definition = "one")
  expect_error(codebook("What?", frame), "setNames[(]x[$]definition, x[$]label[)]")
  expect_error(
    annotate_texts(data.frame(Text = "a"), text, book_of(), local_context()),
    "There are the columns Text"
  )
})

test_that("the print names the steps", {
  run <- list(steps = list(methods = "m labelled 60 texts."))
  coding <- list(label = "label", text = "text", run = run, columns = c(label = "label"))
  coded <- data.frame(text = "a", label = factor("x"))
  coded <- structure(
    coded,
    class = c("llamaherd_coded", "data.frame"),
    llamaherd = coding
  )
  expect_output(print(coded), "Steps: m labelled 60 texts.", fixed = TRUE)
})
