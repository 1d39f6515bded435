news <- function() {
  data.frame(
    text = sprintf("Text %d says %s", 1:80, ifelse(1:80 %% 3 == 0, "that", "this")),
    code = ifelse(1:80 %% 3 == 0, "b", "a")
  )
}

split_sample <- function(...) {
  data <- news()
  gold <- gold_sample(data, 60, text = text, names = c("a", "b"), seed = 1)
  gold <- read_gold(data.frame(id = gold$ids, code = data$code[gold$rows]), gold)
  gold_split(gold, ..., seed = 2)
}

test_that("a split has parts that are samples", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  expect_s3_class(gold, "llamaherd_gold")
  expect_identical(sort(unique(gold$parts)), c("evaluate", "explore", "select"))
  expect_identical(as.data.frame(gold)$part, gold$parts)
  part <- gold_part(gold, "select")
  expect_length(part$ids, 20)
  expect_equal(sum(1 / part$probs), 80)
  expect_null(part$parts)
  expect_error(
    gold_part(gold, "evaluate"),
    "locked until",
    class = "llamaherd_error_argument"
  )
  expect_error(gold_part(gold, "other"), class = "llamaherd_error_argument")
})

test_that("files keep a split", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  path <- withr::local_tempfile(fileext = ".csv")
  write_gold(gold, path)
  expect_identical(read_gold(path)$parts, gold$parts)
  expect_error(gold_split(path), "split already", class = "llamaherd_error_argument")
})

test_that("what cannot be split is refused", {
  local_real()
  expect_error(gold_split(3), "path of its CSV file", class = "llamaherd_error_argument")
  expect_error(
    split_sample(0.5, 0.5, 0.5),
    "sum to 1",
    class = "llamaherd_error_argument"
  )
  expect_error(split_sample("a"), class = "llamaherd_error_argument")
  few <- gold_sample(news(), 3, text = text, names = c("a", "b"), seed = 1)
  expect_error(
    gold_split(few, seed = 1),
    "would have 1",
    class = "llamaherd_error_argument"
  )
})

test_that("examples come from explore", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  book <- codebook("Which?", c("a", "b"))
  made <- choose_examples(gold, 4, book)
  expect_s3_class(made, "llamaherd_codebook")
  texts <- vapply(jsonlite::parse_json(made$content)$examples, \(one) one$text, "")
  expect_length(texts, 4)
  expect_true(all(texts %in% gold$texts[gold$parts == "explore"]))
  vectors <- matrix(seq_len(120), 60)
  expect_s3_class(
    choose_examples(gold, 2, book, embeddings = vectors),
    "llamaherd_codebook"
  )
  expect_error(choose_examples(gold, 2, book, embeddings = "x"), "a matrix")
  expect_error(choose_examples(gold, 2, book, by = "hardest"), "`coded` is needed")
  expect_error(
    choose_examples(gold, 2, book, chat = TRUE),
    "`chat` is used only with a context"
  )
  expect_error(choose_examples(gold, 2, book, context = 3), "`context`")
  expect_error(
    choose_examples(gold, 2, codebook("q", c("x", "y"))),
    "has the labels x, y"
  )
})

test_that("candidates and comparisons are checked before anything runs", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  book <- codebook("Which?", c("a", "b"))
  expect_output(print(candidate(book, calibrate = "batch")), "calibrate")
  expect_error(
    candidate(book, calibrat = "batch"),
    "calibrate",
    class = "llamaherd_error_argument"
  )
  expect_error(
    candidate(book, columns = "x"),
    "is not a setting",
    class = "llamaherd_error_argument"
  )
  expect_error(candidate(book, NULL, "batch"), "named settings")
  expect_error(candidate("book"), class = "llamaherd_error_argument")
  expect_error(compare_codebooks(news(), list(book), gold), "has none of its own")
  expect_error(compare_codebooks(news(), list(), gold), "or a list of them")
  expect_error(
    compare_codebooks(news(), list(a = book, a = book), gold),
    "unique names"
  )
  expect_error(best_codebook(1), "compare_codebooks", class = "llamaherd_error_argument")
  expect_error(
    evaluate_codebook(1, gold),
    "best_codebook",
    class = "llamaherd_error_argument"
  )
  expect_error(
    disagreements(news(), gold),
    "annotate_texts",
    class = "llamaherd_error_argument"
  )
})

test_that("gold_size() counts texts to compare on", {
  local_real()
  size <- gold_size(compare = 0.05)
  expect_identical(size$gold, 626)
  expect_identical(size$dsl, NA_real_)
  expect_output(print(size), "626 texts to compare on")
  expect_error(gold_size(), "`width` or `compare`", class = "llamaherd_error_argument")
  expect_error(gold_size(compare = 0.3), "at least the difference")
  numbers <- gold_size(compare = 0.5, measure = "mae", spread = 1)
  expect_identical(numbers$gold, 34)
  expect_output(print(numbers), "mean absolute error")
  expect_error(gold_size(compare = 0.5, measure = "mae"), "`error` or `spread`")
  expect_error(gold_size(compare = 0.5, measure = "rmse"), "mae")
})
