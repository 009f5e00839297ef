CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT "", description TEXT NOT NULL DEFAULT "", session_type TEXT NOT NULL DEFAULT "user", working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP, total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER, accumulated_total_tokens INTEGER, provider_name TEXT, model_config_json TEXT, parent_session_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, tokens INTEGER, metadata_json TEXT);
INSERT INTO sessions VALUES ('20260101_8', 'Damaged', '', 'user', '/home/user/demo', 'last week', '2026-01-01 00:01:00', NULL, NULL, NULL, NULL, NULL, '{oops', NULL);
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES
('m1', '20260101_8', 'user', '[{"type":"text","text":"Still here"}]', 1767225600, '{oops'),
('m2', '20260101_8', 'assistant', '{oops', 1767225601, NULL),
('m3', '20260101_8', 'assistant', '[7, {"type":"text"}, {"type":"text","text":"and here"}, {"type":"image","data":5}]', 'soon', NULL),
('m4', 'gone', 'user', '[{"type":"text","text":"of no session"}]', 1767225602, NULL);
