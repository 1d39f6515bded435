# Replaces browseURL(), which opens a browser: codes texts on the page and then ends the page.
visited <- function(requests, code) {
  visit <- function(link) {
    where <- regmatches(link, regexec("^http://([^/#]+)/.*#(.*)$", link))[[1]]
    script <- tempfile(fileext = ".py")
    lines <- c(
      "import json, sys",
      "from http.client import HTTPConnection",
      "for path, headers, body in json.loads(sys.argv[2]):",
      "    http = HTTPConnection(sys.argv[1], timeout=120)",
      "    headers['content-type'] = 'application/json'",
      "    http.request('POST', path, json.dumps(body), headers)",
      "    http.getresponse().read()"
    )
    writeLines(lines, script)
    owner <- list(Authorization = paste("Bearer", where[[3]]))
    stop <- list("/api/stop", owner, list(a = 1))
    all <- jsonlite::toJSON(c(requests, list(stop)), auto_unbox = TRUE)
    python <- reticulate::py_config()$python
    # The call must not block R, because Python's threads run only while R waits in Python.
    arguments <- c(shQuote(script), where[[2]], shQuote(all))
    system2(python, arguments, stdout = FALSE, wait = FALSE)
  }
  withr::with_options(list(browser = visit), suppressMessages(code))
}

# Returns what code_texts() returns after these codes were given on its page; `output` is the
# attribute with what it printed.
coded_on_page <- function(codes, ..., path = tempfile(fileext = ".sqlite")) {
  output <- capture.output(
    coded <- visited(
      codes,
      code_texts(..., coders = c("anna", "ben"), path = path, port = 0, browser = TRUE)
    )
  )
  structure(coded, output = output)
}

as_coder <- function(coder, i, value, note = "") {
  list("/api/code", list(`X-Coder` = coder), list(i = i, value = value, note = note))
}

test_that("codes of a data frame are its columns", {
  local_real()
  news <- data.frame(text = c("A match.", "Gr\u00fc\u00dfe.", "A price."))
  topics <- codebook("Topic?", c(Sports = "Matches.", Money = ""))
  path <- withr::local_tempfile(fileext = ".sqlite")
  code <- list(as_coder("anna", 1, "Money"), as_coder("ben", 0, "Sports", "Gr\u00fcn?"))
  codes <- coded_on_page(code, news, topics, path = path)
  expect_match(attr(codes, "output"), "http://127.0.0.1:.*/owner#", all = FALSE)
  expect_named(codes, c("text", "anna", "ben"))
  expect_identical(codes$anna, c(NA, "Money", NA))
  expect_identical(codes$ben, c("Sports", NA, NA))
  notes <- data.frame(coder = "ben", id = "1", note = "Gr\u00fcn?")
  expect_identical(attr(codes, "notes"), notes)
  expect_true(file.exists(path))
  expect_errors(
    "coders" = code_texts(news, topics, "text", path = path),
    code_texts(3),
    code_texts(news, "topics"),
    code_texts(news, topics, hosts = "")
  )
})

test_that("a gold sample and passages get their codes", {
  local_real()
  data <- data.frame(text = sprintf("Text %d.", 1:9), label = rep(c("a", "b", "c"), 3))
  gold <- gold_sample(data, 4, text = text, label = label, seed = 1)
  sample <- coded_on_page(list(as_coder("anna", 2, "b")), gold)
  expect_s3_class(sample, "llamaherd_gold")
  expect_identical(sample$codes$anna, c(NA, NA, "b", NA))
  expect_identical(sample$ids, gold$ids)
  expect_identical(dim(attr(sample, "notes")), c(0L, 3L))
  who <- codebook("Who?", c(actor = ""), type = "spans")
  span <- list(list(start = 0, end = 4, label = "actor"))
  spans <- coded_on_page(list(as_coder("anna", 0, span)), data, who)
  expect_s3_class(spans, "llamaherd_spans")
  expect_identical(spans$quote, "Text")
  expect_identical(c(spans$start, spans$end), c(1L, 4L))
})

test_that("a codebook with fields gives a gold sample, or columns, for each field", {
  local_real()
  fields <- type_object(
    topic = type_enum(c("a", "b", "c"), "The topic."),
    anger = type_integer("How angry?")
  )
  book <- codebook("What is it?", schema = fields, type = "fields")
  data <- data.frame(text = sprintf("Text %d.", 1:9), topic = rep(c("a", "b", "c"), 3))
  gold <- gold_sample(data, 4, text = text, label = topic, seed = 1)
  code <- list(as_coder("anna", 2, list(topic = "b", anger = 3)))
  samples <- coded_on_page(code, gold, book)
  expect_named(samples, c("topic", "anger"))
  expect_s3_class(samples$topic, "llamaherd_gold")
  expect_identical(samples$topic$codes$anna, c(NA, NA, "b", NA))
  expect_identical(samples$anger$codes$anna, c(NA, NA, "3", NA))
  codes <- coded_on_page(code, data["text"], book)
  expect_named(codes, c("text", "topic.anna", "topic.ben", "anger.anna", "anger.ben"))
  expect_identical(codes$anger.anna[1:3], c(NA, NA, "3"))
})
