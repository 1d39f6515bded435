marked_file <- function(lines, env = parent.frame()) {
  path <- withr::local_tempfile(fileext = ".jsonl", .local_envir = env)
  writeLines(enc2utf8(lines), path, useBytes = TRUE)
  path
}

example_lines <- c(
  '{"id": 1, "text": "Gr\u00fc\u00dfe an Ann.", "coder": "eve",
    "spans": [{"start": 9, "end": 12, "label": "who"}]}',
  '{"id": 2, "text": "It rained.", "coder": "eve", "spans": []}'
)

test_that("coded texts without passages are refused", {
  coded <- structure(
    data.frame(text = "a", label = "x"),
    class = c("llamaherd_coded", "data.frame"),
    llamaherd = list(columns = c(label = "label"))
  )
  expect_error(coded_spans(coded), "type = \"spans\"", class = "llamaherd_error_argument")
})

test_that("passages are read with their places in R", {
  local_real()
  path <- marked_file(gsub("\n", " ", example_lines))
  marked <- read_spans(path)
  expect_s3_class(marked, "llamaherd_spans")
  expect_equal(marked$quote, "Ann")
  expect_equal(substr("Gr\u00fc\u00dfe an Ann.", marked$start, marked$end), "Ann")
  expect_equal(levels(marked$label), "who")
  expect_output(print(marked), "2 texts, 1 passage, coders eve", fixed = TRUE)
  expect_error(read_spans("nowhere.jsonl"), class = "llamaherd_error_argument")
  expect_error(read_spans(path, format = "xml"), class = "llamaherd_error_argument")
  bad <- marked_file('{"text": "a", "spans": [{"start": 0, "end": 5, "label": "x"}]}')
  expect_error(read_spans(bad), "not within", class = "llamaherd_error_argument")
})

test_that("passages of a model are compared with people's", {
  local_real()
  marked <- read_spans(marked_file(gsub("\n", " ", example_lines)))
  coded <- data.frame(text = c("Gr\u00fc\u00dfe an Ann.", "It rained.", NA, "Other."))
  coded$spans <- list(
    data.frame(label = "who", quote = "an Ann", start = 7L, end = 12L),
    data.frame(label = "who", quote = "It", start = 1L, end = 2L),
    NULL,
    data.frame(label = character(), quote = character(), start = 1L[0], end = 1L[0])
  )
  validation <- validate_spans(coded, marked, text = "text")
  value <- function(measure) {
    validation$value[validation$measure == measure & is.na(validation$label)]
  }
  expect_equal(value("exact f1"), 0)
  expect_equal(value("overlap precision"), 0.5)
  expect_equal(value("overlap recall"), 1)
  expect_equal(unique(validation$n), 2L)
  expect_output(print(validation), "unitizing alpha")
  ann <- data.frame(label = "who", quote = "Ann", start = 10L, end = 12L)
  coded$spans[1:2] <- list(ann, NULL)
  one <- validate_spans(coded, marked, text = "text")
  expect_equal(one$value[one$measure == "exact f1"], 1)
  expect_match(attr(one, "notes"), "1 of 2 texts")
  expect_errors(
    validate_spans(coded, marked),
    validate_spans(coded, data.frame(), text = "text"),
    validate_spans(coded[4, ], marked, text = "text")
  )
})

test_that("what was removed says what to use instead", {
  local_real()
  marked <- read_spans(marked_file(gsub("\n", " ", example_lines)))
  coded <- data.frame(text = "It rained.")
  coded$spans <- list(data.frame(label = "who", quote = "It", start = 1L, end = 2L))
  expect_errors(
    "unitizing alpha" = validate_spans(coded, marked, text = "text", gamma = TRUE),
    "without a bootstrap" = validate_spans(coded, marked, text = "text", n_bootstrap = 9)
  )
})

test_that("passages without a known column of texts need the argument text", {
  coded <- data.frame(words = "Ann met Bob.")
  coded$spans <- list(data.frame(label = "who", quote = "Ann", start = 1, end = 3))
  gold <- structure(list(), content = "[]", class = "llamaherd_spans")
  expect_errors(
    "`text` must be names of columns (there are words, spans), not NULL" = validate_spans(
      coded,
      gold
    ),
    fixed = TRUE
  )
})
