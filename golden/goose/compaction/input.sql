CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT "", description TEXT NOT NULL DEFAULT "", session_type TEXT NOT NULL DEFAULT "user", working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP, total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER, accumulated_total_tokens INTEGER, provider_name TEXT, model_config_json TEXT, parent_session_id TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, tokens INTEGER, metadata_json TEXT);
INSERT INTO sessions VALUES ('20260101_7', 'Long', '', 'user', '/home/user/demo', '2026-01-01 00:00:00', '2026-01-01 00:01:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json) VALUES
('20260101_7', 'user', '[{"type":"text","text":"First"}]', 1767225600, '{"userVisible":true,"agentVisible":false}'),
('20260101_7', 'assistant', '[{"type":"text","text":"Done"}]', 1767225601, '{"userVisible":true,"agentVisible":false}'),
('20260101_7', 'assistant', '[{"type":"text","text":"Summary: the first thing is done."}]', 1767225602, '{"userVisible":false,"agentVisible":true}'),
('20260101_7', 'user', '[{"type":"text","text":"Second"}]', 1767225603, NULL),
('20260101_7', 'assistant', '[{"type":"text","text":"Done too"}]', 1767225604, NULL);
