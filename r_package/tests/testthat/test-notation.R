# Messages that Python creates have R's notation: R's constants, names of R's arguments and
# functions, and positions from 1, as in x[1] and x$y.

python_notation <- paste(
  "\\b(True|False|None|NoneType|dict|str|int|float|tuple|ndarray|inf|nan|kwargs)\\b",
  "\\w=[\"'\\w(]", # an argument in a call
  "\\['|\\[\\d+, |\\(\\d+,\\)", # a list, a shape
  "\\[0\\]",
  "\\]\\.[a-z]", # a field of an element
  "Python stopped",
  sep = "|"
)

expect_r_notation <- function(call, env) {
  condition <- tryCatch(eval(call, env), error = identity)
  text <- paste(deparse(call), collapse = " ")
  expect_s3_class(condition, "llamaherd_error")
  if (!inherits(condition, "error")) {
    return(invisible())
  }
  message <- cli::ansi_strip(conditionMessage(condition))
  expect_no_match(message, python_notation, perl = TRUE, info = text)
  calls <- regmatches(message, gregexpr("\\b[a-z]\\w+(?=\\()", message, perl = TRUE))[[1]]
  known <- c(getNamespaceExports("llamaherd"), getNamespaceExports("base"))
  expect_identical(setdiff(calls, known), character(), info = text)
}

test_that("errors about codebooks have R's notation", {
  skip_if_no_llamaherd()
  env <- rlang::env(rlang::current_env())
  env$examples <- \(...) data.frame(text = "abc", label = I(list(...)))
  env$passage <- \(quote, label) data.frame(quote = quote, label = label)
  env$yaml <- \(...) {
    path <- tempfile(fileext = ".yaml")
    writeLines(c("question: q", ...), path)
    read_codebook(path)
  }
  ab <- c("a", "b")
  calls <- rlang::exprs(
    codebook("q", "a"),
    codebook("q", c("a", "")),
    codebook("", ab),
    codebook("q", ab, words = c(foo = "x")),
    codebook("q", ab, language = "xx"),
    codebook("q", ab, max_spans = 2),
    codebook("q", type = "fields"),
    codebook("q", ab, schema = type_object(a = type_string())),
    codebook("q", ab, examples = data.frame(text = "x", label = "c")),
    codebook("q", ab, examples = data.frame(text = "", label = "a")),
    codebook("q", ab, type = "multiple", examples = examples(c("c", "a"))),
    codebook("q", ab, type = "spans", examples = examples(passage("z", "a"))),
    codebook("q", ab, type = "spans", examples = examples(passage("abc", "z"))),
    number_scale(1, 1),
    number_scale(0, 10, 3),
    number_scale(0, 10, names = c("99" = "x")),
    ready_codebook("foo"),
    ready_codebook("stance"),
    yaml("labels: 3"),
    yaml("labels: [a, b]", "foo: 1"),
    yaml("labels: [a, b]", "examples: [3]"),
    yaml("labels: [a, b]", "examples: [{text: x}]"),
    yaml("labels: [a, b]", "examples: [{text: x, label: z}]"),
    yaml("labels: [a, {b: 1}]"),
    yaml("labels: [a, b]", "words: [1]"),
    yaml("labels: [a, b]", "type: foo"),
    yaml("labels: [a, b]", "max_spans: yes")
  )
  for (call in calls) {
    expect_r_notation(call, env)
  }
  expect_error(codebook("q", "a"), "a codebook needs 2 to 10,000 labels; it has 1")
  wrong <- data.frame(text = c("x", "y"), label = c("a", "z"))
  misplaced <- env$examples(env$passage("abc", "z"))
  expect_errors(
    "`examples$label[2]` must be one of" = codebook("q", ab, examples = wrong),
    "`examples$label[[1]]$label[1]` must be" = codebook(
      "q",
      ab,
      type = "spans",
      examples = misplaced
    ),
    fixed = TRUE
  )
})

test_that("errors about samples, codes and estimates have R's notation", {
  skip_if_no_llamaherd()
  data <- data.frame(
    text = sprintf("t%d", 1:60),
    label = rep(c("u", "v", "u"), 20),
    n = 1:60,
    party = c("A", "B")
  )
  sample <- gold_sample(data, 20, text = text, label = label, seed = 1)
  sheet <- as.data.frame(sample)
  sheet$code <- c("u", "v")
  coded <- read_gold(sheet, sample)
  other <- withr::local_tempfile(lines = c("a,b", "1,2"), fileext = ".csv")
  changed <- \(column, value) read_gold(replace(sheet, column, list(value)), sample)
  calls <- rlang::exprs(
    gold_sample(data, 100, text = text),
    gold_sample(data, 5, text = text, prob = "uncertainty"),
    gold_sample(data, 5, text = text, prob = rep(2, 60)),
    gold_sample(data, 5, text = text, prob = 1),
    gold_sample(data, 5, text = text, floor = 5),
    gold_sample(data, 5, text = text, weights = n, prob = "weights", by = party),
    gold_sample(data, 5, text = text, allocation = c(A = 1), by = party),
    gold_sample(data, 50, after = coded),
    write_gold(sample, other, coders = c("a", "a"), overwrite = TRUE),
    read_gold(other),
    read_gold(other, sample),
    read_gold(sheet, sample, coders = "zz"),
    changed("code", "zz"),
    changed("id", "999"),
    gold_split(coded, 2),
    gold_size(width = 0),
    gold_size(),
    gold_size(width = 0.05, correlation = 2),
    estimate(data, coded, outcome = "z"),
    estimate(data, coded, outcome = "quantile"),
    estimate(data, coded, level = 2),
    estimate(data, "label"),
    estimate(data, coded, outcome = c(u = 1)),
    estimate(data, coded, weights = -n),
    estimate(data[1:10, ], coded),
    suppressWarnings(estimate(data, coded, label == "u" ~ log(-n))),
    validate(data, coded, level = 0),
    validate(data, coded, prob = n),
    validate(data, coded, weights = -data$n),
    agreement(1:3, c("a", "b", "c"), scale = "ordinal"),
    agreement(1:3, 1:3, levels = 1:2),
    agreement(1:3, 1:3, weights = 1:2),
    agreement(1:3, 1:3, kappa_weights = matrix(0, 2, 2)),
    recalibrate(data, coded),
    choose_examples(coded, 5, codebook("q", c("u", "v"))),
    with_chat_date("x", 1)
  )
  for (call in calls) {
    expect_r_notation(call, rlang::current_env())
  }
  expect_errors(
    "^`gold` must be given" = read_gold(other),
    "^`weights` must be 3 numbers, not 2 values" = agreement(1:3, 1:3, weights = 1:2)
  )
})
